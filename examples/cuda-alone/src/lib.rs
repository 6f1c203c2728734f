//! What the examples share: where their driver comes from ([`run`]), a device with kernels and arrays of numbers
//! ([`Gpu`], [`Floats`]), and the caching allocator's memory as cudarc's slices ([`CachedSlice`]).

mod cached_slice;
mod gpu;
mod kernels;
mod start;

pub use cached_slice::{CachedSlice, stream_of};
pub use gpu::{Floats, Gpu};
pub use kernels::{HOST_IMAGE, Kernels, PTX};
pub use start::{Result, run};
