//! Index tensors as numbers that are checked: no kernel sees one that is out of bounds.

use c10_core::ScalarType;

use crate::error::{Error, Result};
use crate::tensor::{Dims, Tensor};

/// Whether the elements can be indices: of `int64` or `int32`.
pub(super) fn check_index_dtype(operator: &str, index: &Tensor) -> Result<()> {
    if matches!(index.dtype(), ScalarType::Int64 | ScalarType::Int32) {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{operator}(): Expected dtype int32/int64 for index, got {}",
        index.dtype().name()
    )))
}

/// The elements in row-major order.
pub(super) fn values(index: &Tensor) -> Result<Vec<i64>> {
    index.to_dtype(ScalarType::Int64)?.to_vec::<i64>()
}

/// The elements in row-major order, each from 0 to below `size`.
///
/// # Errors
/// [`ErrorKind::Index`](crate::ErrorKind::Index) for any other.
pub(super) fn values_below(index: &Tensor, size: i64, dim: usize) -> Result<Vec<i64>> {
    let values = values(index)?;
    match values.iter().find(|&&value| value < 0 || value >= size) {
        None => Ok(values),
        Some(&value) => Err(out_of_bounds(value, dim, size)),
    }
}

/// As [`values_below`], where a negative element counts from the end.
pub(super) fn wrapped_values(index: &Tensor, size: i64, dim: usize) -> Result<Vec<i64>> {
    let mut values = values(index)?;
    for value in &mut values {
        if *value < -size || *value >= size {
            return Err(out_of_bounds(*value, dim, size));
        }
        if *value < 0 {
            *value += size;
        }
    }
    Ok(values)
}

#[cold]
pub(super) fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// The tensor itself, or one of no dimension as one of a single element.
pub(super) fn at_least_1d(tensor: &Tensor) -> Result<Tensor> {
    if tensor.rank() > 0 {
        return Ok(tensor.clone());
    }
    tensor.view_of(Dims::from([1]), Dims::from([1]), tensor.storage_offset())
}

/// The size along a dimension, which is 1 for a tensor of none.
pub(super) fn size_at(tensor: &Tensor, dim: usize) -> i64 {
    tensor.geometry().sizes.get(dim).copied().unwrap_or(1)
}
