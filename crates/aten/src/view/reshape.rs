//! The same elements in another shape.

use c10_core::ScalarType;

use super::Strided;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{infer_size, strides_in_shape, wrap_dim};
use crate::tensor::{Dims, Geometry};

impl Geometry {
    /// `view`: another shape on the elements of `own`, where their places allow it.
    #[inline(always)]
    pub(crate) fn reshaped(&mut self, own: &Self, shape: &[i64], dtype: ScalarType) -> Result<()> {
        if own.flags.is_canonical() && self.take_row_major(shape) {
            return Ok(());
        }
        self.strided.split_or_joined(own, shape)?;
        self.settle_rearranged(dtype);
        Ok(())
    }
}

impl Strided {
    #[inline(never)]
    fn split_or_joined(&mut self, own: &Geometry, shape: &[i64]) -> Result<()> {
        let sizes = infer_size(shape, own.numel)?;
        let Some(strides) = strides_in_shape(&own.sizes, &own.strides, &sizes) else {
            return Err(Error::shape(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans \
                 across two contiguous subspaces). Use .reshape(...) instead.",
            ));
        };
        (self.sizes, self.strides) = (sizes, strides);
        Ok(())
    }
}

/// The shape after `flatten` joined the dimensions from `start` to `end`; `None` if there is nothing to join.
pub(crate) fn flattened(sizes: &[i64], start: i64, end: i64) -> Result<Option<Dims>> {
    let (start, end) = (wrap_dim(start, sizes.len())?, wrap_dim(end, sizes.len())?);
    if start > end {
        return Err(Error::invalid_argument(
            "flatten() has invalid args: start_dim cannot come after end_dim",
        ));
    }
    if sizes.is_empty() {
        return Ok(Some(Dims::from([1])));
    }
    if start == end {
        return Ok(None);
    }
    let joined = c10_core::bytes::numel(&sizes[start..=end])?;
    let mut shape = Dims::from(&sizes[..start]);
    shape.push(joined);
    shape.extend(sizes[end + 1..].iter().copied());
    Ok(Some(shape))
}

/// The shape after `unflatten` cut the dimension `dim` into `parts`.
pub(crate) fn unflattened(sizes: &[i64], dim: i64, parts: &[i64]) -> Result<Dims> {
    if sizes.is_empty() {
        return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
    }
    let dim = wrap_dim(dim, sizes.len())?;
    if parts.is_empty() {
        return Err(Error::shape("unflatten: sizes must be non-empty"));
    }
    let parts = infer_size(parts, sizes[dim]).map_err(|error| match error.kind() {
        ErrorKind::Shape if !parts.contains(&-1) => Error::shape(format!(
            "unflatten: Provided sizes {parts:?} don't multiply up to the size of dim {dim} ({}) in the input tensor",
            sizes[dim]
        )),
        _ => error,
    })?;
    let mut shape = Dims::from(&sizes[..dim]);
    shape.extend(parts.iter().copied());
    shape.extend(sizes[dim + 1..].iter().copied());
    Ok(shape)
}
