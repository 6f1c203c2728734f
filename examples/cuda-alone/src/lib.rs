//! What the examples share: where their driver comes from ([`run`]), a device with kernels and arrays of numbers
//! ([`Gpu`], [`Floats`]), and what lies between the caching allocator and cudarc ([`BorrowedStream`], [`CachedSlice`]).

mod borrowed_stream;
mod cached_slice;
mod gpu;
mod kernels;
mod start;

pub use borrowed_stream::BorrowedStream;
pub use cached_slice::CachedSlice;
pub use gpu::{Floats, Gpu};
pub use kernels::{HOST_IMAGE, Kernels, PTX};
pub use start::{Result, run};

/// Compiles the examples of the guide to cudarc.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cudarc.md")]
struct CudarcGuide;
