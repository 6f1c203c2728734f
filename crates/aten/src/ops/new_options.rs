//! The arguments that say what a new tensor is to be, resolved.

use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

use super::handles;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access, default_dtype};

/// `dtype`, `layout`, `device` and `pin_memory`, as schemas have them in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) dtype: Option<ScalarType>,
    pub(super) layout: Option<Layout>,
    pub(super) device: Option<Device>,
    pub(super) pin_memory: Option<bool>,
}

impl Options {
    /// The dtype and the device, where none is given those of here.
    #[inline]
    pub(super) fn or(self, dtype: ScalarType, device: Device) -> Result<(ScalarType, Device)> {
        if !matches!(self.layout, None | Some(Layout::Strided)) || self.pin_memory == Some(true) {
            return Err(self.missing());
        }
        Ok((self.dtype.unwrap_or(dtype), self.device.unwrap_or(device)))
    }

    #[cold]
    fn missing(self) -> Error {
        match self.layout {
            Some(layout) if layout != Layout::Strided => {
                Error::not_implemented(format!("a new tensor of layout {layout:?}"))
            }
            _ => Error::not_implemented("page-locked memory for a new tensor"),
        }
    }

    /// As [`or`](Self::or) with the default dtype, on the CPU.
    #[inline]
    pub(super) fn or_default(self) -> Result<(ScalarType, Device)> {
        self.or(default_dtype(), Device::CPU)
    }

    /// As [`or`](Self::or) with the dtype and the device of a tensor.
    pub(super) fn or_of(self, tensor: &Tensor) -> Result<(ScalarType, Device)> {
        self.or(tensor.dtype(), tensor.device())
    }

    /// A new tensor with a size and unspecified values.
    #[inline]
    pub(super) fn empty(self, sizes: &[i64]) -> Result<Tensor> {
        let (dtype, device) = self.or_default()?;
        Tensor::row_major(check_sizes(sizes)?, dtype, device)
    }

    /// A new tensor that is laid out like another (`empty_like`).
    pub(super) fn empty_like(self, like: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
        let (dtype, device) = self.or_of(like)?;
        let sizes = like.sizes();
        let strides = match format.unwrap_or(MemoryFormat::Preserve) {
            MemoryFormat::Preserve => shape::dense_strides_like(&sizes, &like.strides())?,
            format => shape::strides_of_format(&sizes, format)?,
        };
        New::strided(sizes, strides, dtype, device).make()
    }
}

/// Sizes none of which is negative.
#[inline]
pub(super) fn checked_sizes(sizes: &[i64]) -> Result<Dims> {
    check_sizes(sizes).map(Dims::from)
}

#[inline]
fn check_sizes(sizes: &[i64]) -> Result<&[i64]> {
    if sizes.iter().all(|&size| size >= 0) { Ok(sizes) } else { Err(negative(sizes)) }
}

#[cold]
fn negative(sizes: &[i64]) -> Error {
    let size = sizes.iter().find(|&&size| size < 0).copied().unwrap_or_default();
    Error::shape(format!("Trying to create tensor with negative dimension {size}: {sizes:?}"))
}

/// Fills a tensor that was just made.
pub(super) fn fill_fresh(tensor: &Tensor, value: Scalar) -> Result<()> {
    if tensor.is_meta() {
        return check_value(value, tensor.dtype());
    }
    if !tensor.device().is_cpu() {
        return handles::FILL__SCALAR.call(tensor, value);
    }
    access([], [tensor], Fresh::Yes, |[], [out]| match tensor.dtype() {
        ScalarType::Bool => {
            out.elements::<u8>()?.fill(value.to::<bool>()?.into());
            Ok(())
        }
        ScalarType::Float8E5M2 => {
            out.elements::<u8>()?.fill(value.to::<c10_core::F8E5M2>()?.to_bits());
            Ok(())
        }
        ScalarType::Float8E4M3Fn => {
            out.elements::<u8>()?.fill(value.to::<c10_core::F8E4M3Fn>()?.to_bits());
            Ok(())
        }
        dtype => dispatch!(
            dtype,
            "fill_",
            [
                u8, i8, u16, i16, u32, i32, u64, i64, c10_core::f16, c10_core::bf16, f32, f64,
                c10_core::Complex<c10_core::f16>, c10_core::Complex<c10_core::bf16>, c10_core::Complex<f32>, c10_core::Complex<f64>
            ],
            T => {
                out.elements::<T>()?.fill(value.to::<T>()?);
                Ok(())
            }
        ),
    })
}

/// Whether a number fits a dtype, for tensors that have no elements to tell.
pub(super) fn check_value(value: Scalar, dtype: ScalarType) -> Result<()> {
    dispatch!(
        dtype,
        "fill_",
        [
            bool, u8, i8, u16, i16, u32, i32, u64, i64, c10_core::f16, c10_core::bf16, f32, f64,
            c10_core::Complex<c10_core::f16>, c10_core::Complex<c10_core::bf16>, c10_core::Complex<f32>, c10_core::Complex<f64>,
            c10_core::F8E4M3Fn, c10_core::F8E5M2
        ],
        T => Ok(value.to::<T>().map(|_| ())?)
    )
}
