//! Loops of two inputs.

use c10_core::Scalar;

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::loops::{self, dispatch};

/// `out = a + alpha * b`; of `bool`s, `a || (alpha && b)`.
pub(crate) fn add(iter: &TensorIter<'_>, alpha: Scalar) -> Result<()> {
    match iter.common_dtype() {
        c10_core::ScalarType::Bool => {
            let alpha = alpha.to::<bool>()?;
            loops::binary(iter, |a: bool, b: bool| a || (alpha && b))
        }
        dtype if dtype.is_integral(false) => {
            dispatch!(dtype, "add", [u8, i8, i16, i32, i64], T => {
                let alpha = alpha.to::<T>()?;
                loops::binary(iter, |a: T, b: T| a.wrapping_add(alpha.wrapping_mul(b)))
            })
        }
        dtype => dispatch!(dtype, "add", [f32, f64], T => {
            let alpha = alpha.to::<T>()?;
            loops::binary(iter, |a: T, b: T| a + alpha * b)
        }),
    }
}
