//! Complex conjugates.

use c10_core::{Complex, f16};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::loops::{self, dispatch};

/// `out = conj(a)`, of complex numbers.
pub(crate) fn conj(iter: &TensorIter<'_>) -> Result<()> {
    dispatch!(
        iter.common_dtype(),
        "conj_physical",
        [Complex<f16>, Complex<f32>, Complex<f64>],
        T => loops::unary(iter, |a: T| T::new(a.re, -a.im))
    )
}

/// `out = -conj(a)`, of complex numbers.
pub(crate) fn negated_conj(iter: &TensorIter<'_>) -> Result<()> {
    dispatch!(
        iter.common_dtype(),
        "conj_physical",
        [Complex<f16>, Complex<f32>, Complex<f64>],
        T => loops::unary(iter, |a: T| T::new(-a.re, a.im))
    )
}
