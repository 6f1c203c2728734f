//! Pooling of row-major tensors, by the element types that have it.

use c10_core::{ScalarType, bf16, f16};

use super::window::{self, Windows};
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::tensor::{Read, Write};

/// Refuses dtypes that have no maxima of windows.
pub(crate) fn check_max(dtype: ScalarType) -> Result<()> {
    dispatch!(dtype, "max_pool", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        let _: Option<T> = None;
        Ok(())
    })
}

/// Refuses dtypes that have no means of windows.
pub(crate) fn check_mean(dtype: ScalarType) -> Result<()> {
    dispatch!(dtype, "avg_pool", [i64, f16, bf16, f32, f64], T => {
        let _: Option<T> = None;
        Ok(())
    })
}

/// [`window::max`].
pub(crate) fn max(windows: &Windows, input: &Read<'_>, output: Write<'_>, places: Write<'_>) -> Result<()> {
    dispatch!(input.dtype(), "max_pool", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        window::max(windows, input.slice::<T>()?, output.slice::<T>()?, places.slice::<i64>()?);
        Ok(())
    })
}

/// [`window::max_backward`].
pub(crate) fn max_backward(
    inputs: usize,
    outputs: usize,
    grad: &Read<'_>,
    places: &Read<'_>,
    out: Write<'_>,
) -> Result<()> {
    dispatch!(grad.dtype(), "max_pool_backward", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        window::max_backward(inputs, outputs, grad.slice::<T>()?, places.slice::<i64>()?, out.slice::<T>()?)
    })
}

/// [`window::unpool`].
pub(crate) fn unpool(
    inputs: usize,
    outputs: usize,
    input: &Read<'_>,
    places: &Read<'_>,
    out: Write<'_>,
) -> Result<()> {
    dispatch!(input.dtype(), "max_unpooling", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        window::unpool(inputs, outputs, input.slice::<T>()?, places.slice::<i64>()?, out.slice::<T>()?)
    })
}

/// [`window::mean`].
pub(crate) fn mean(windows: &Windows, input: &Read<'_>, output: Write<'_>) -> Result<()> {
    dispatch!(input.dtype(), "avg_pool", [i64, f16, bf16, f32, f64], T => {
        window::mean(windows, input.slice::<T>()?, output.slice::<T>()?);
        Ok(())
    })
}

/// [`window::mean_backward`].
pub(crate) fn mean_backward(windows: &Windows, grad: &Read<'_>, out: Write<'_>) -> Result<()> {
    dispatch!(grad.dtype(), "avg_pool_backward", [i64, f16, bf16, f32, f64], T => {
        window::mean_backward(windows, grad.slice::<T>()?, out.slice::<T>()?);
        Ok(())
    })
}
