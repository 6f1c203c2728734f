//! Functions of one element, written so that loops over them vectorise.
//!
//! [`Float`], [`Integer`] and [`ComplexFloat`] give each kind of element what ATen's pointwise operators need,
//! with PyTorch's answers at the edges. The narrow floats have none of their own: their operators compute in
//! `f32` and round once.

mod activation;
mod complex;
mod float;
mod integer;
mod single;
mod special;
#[cfg(test)]
mod tests;

pub use activation::Activation;
pub use complex::ComplexFloat;
pub use float::Float;
pub use integer::Integer;
pub use special::{Orthogonal, Special};

/// A float of whichever type as an `f64`.
pub(crate) fn to_f64(value: impl Into<f64>) -> f64 {
    value.into()
}
