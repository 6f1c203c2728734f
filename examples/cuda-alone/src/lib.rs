//! What the examples share: where their driver comes from ([`run`]), and a device with kernels and arrays of numbers
//! ([`Gpu`], [`Floats`]).

mod gpu;
mod kernels;
mod start;

pub use gpu::{Floats, Gpu};
pub use kernels::Kernels;
pub use start::{Result, run};
