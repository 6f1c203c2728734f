//! Loops that make complex numbers of real ones.

use c10_core::Complex;

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, compute};
use crate::math::Float;

pub(crate) fn cartesian(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "complex", [f32, f64], T => binary(iter, |re: T, im: T| Complex::new(re, im)))
}

pub(crate) fn polar(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "polar", [f32, f64], T => {
        binary(iter, |size: T, angle: T| Complex::new(size * Float::cos(angle), size * Float::sin(angle)))
    })
}
