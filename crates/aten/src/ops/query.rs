//! What a tensor is, for callers by name; in Rust these are plain methods of [`Tensor`].

use c10_core::MemoryFormat;

use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::shape::wrap_dim;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    for name in ["size", "sym_size"] {
        lib.composite(name, |x: &Tensor| -> Result<Vec<i64>> { Ok(x.sizes().to_vec()) })?;
    }
    for name in ["stride", "sym_stride"] {
        lib.composite(name, |x: &Tensor| -> Result<Vec<i64>> { Ok(x.strides().to_vec()) })?;
    }
    for name in ["size.int", "sym_size.int"] {
        lib.composite(name, Tensor::size)?;
    }
    for name in ["stride.int", "sym_stride.int"] {
        lib.composite(name, Tensor::stride)?;
    }
    for name in ["numel", "sym_numel"] {
        lib.composite(name, |x: &Tensor| -> Result<i64> { Ok(x.numel()) })?;
    }
    for name in ["storage_offset", "sym_storage_offset"] {
        lib.composite(name, |x: &Tensor| -> Result<i64> { Ok(x.storage_offset()) })?;
    }
    lib.composite("dim", |x: &Tensor| -> Result<i64> { Ok(x.rank() as i64) })?;
    lib.composite("is_contiguous", |x: &Tensor| -> Result<bool> { Ok(x.is_contiguous()) })?;
    for name in ["is_contiguous.memory_format", "sym_is_contiguous"] {
        lib.composite(name, |x: &Tensor, format: MemoryFormat| -> Result<bool> {
            Ok(x.is_contiguous_in(format))
        })?;
    }
    lib.composite("is_non_overlapping_and_dense", |x: &Tensor| -> Result<bool> {
        Ok(x.is_non_overlapping_and_dense())
    })?;
    lib.composite("is_complex", |x: &Tensor| -> Result<bool> { Ok(x.dtype().is_complex()) })?;
    lib.composite("is_floating_point", |x: &Tensor| -> Result<bool> { Ok(x.dtype().is_floating_point()) })?;
    lib.composite("is_signed", |x: &Tensor| -> Result<bool> { Ok(x.dtype().is_signed()) })?;
    lib.composite("is_same_size", |x: &Tensor, other: &Tensor| -> Result<bool> {
        Ok(x.sizes() == other.sizes())
    })?;
    lib.composite("is_set_to", |x: &Tensor, other: &Tensor| -> Result<bool> { Ok(x.is_set_to(other)) })?;
    lib.composite("is_nonzero", |x: &Tensor| -> Result<bool> {
        match x.numel() {
            1 => Ok(x.item()?.to::<bool>()?),
            0 => Err(Error::shape("Boolean value of Tensor with no values is ambiguous")),
            _ => Err(Error::shape("Boolean value of Tensor with more than one value is ambiguous")),
        }
    })
}

impl Tensor {
    /// The size of a dimension, counted from the end if negative.
    ///
    /// # Errors
    /// [`ErrorKind::Index`](crate::ErrorKind::Index) when there is no such dimension.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let dim = existing_dim(self, dim)?;
        Ok(self.geometry().sizes[dim])
    }

    /// The stride of a dimension, counted from the end if negative.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn stride(&self, dim: i64) -> Result<i64> {
        let dim = existing_dim(self, dim)?;
        Ok(self.geometry().strides[dim])
    }

    /// Whether two tensors have the same storage, sizes, strides and offset.
    pub fn is_set_to(&self, other: &Self) -> bool {
        let (a, b) = (self.geometry(), other.geometry());
        a.storage.is_same(&b.storage)
            && a.sizes == b.sizes
            && a.strides == b.strides
            && a.storage_offset == b.storage_offset
    }
}

fn existing_dim(x: &Tensor, dim: i64) -> Result<usize> {
    if x.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, x.rank())
}
