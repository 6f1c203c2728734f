//! Reductions: what was made of many elements is handed back to each of them.

use aten::{Result, Tensor, TensorOptions};

use super::shape::{kept, masked, total_of};

/// The dimensions that a reduction went over, from the front: all where none are named.
pub(crate) fn dims_of(rank: usize, dims: Option<&[i64]>) -> Vec<i64> {
    let rank = rank as i64;
    match dims {
        None | Some([]) => (0..rank).collect(),
        Some(dims) => {
            let mut dims: Vec<i64> =
                dims.iter().map(|dim| if *dim < 0 { dim + rank } else { *dim }).collect();
            dims.sort_unstable();
            dims
        }
    }
}

/// The number of elements that one result was made of.
pub(crate) fn count(sizes: &[i64], dims: Option<&[i64]>) -> i64 {
    match sizes {
        [] => 1,
        _ => dims_of(sizes.len(), dims).iter().map(|dim| sizes[*dim as usize]).product(),
    }
}

/// A result of a reduction with the dimensions of the input, those that went as ones.
pub(crate) fn restored(result: &Tensor, rank: usize, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    if keepdim || rank == 0 || result.rank() == rank {
        return Ok(result.clone());
    }
    dims_of(rank, dims).iter().try_fold(result.clone(), |made, dim| made.unsqueeze(*dim))
}

/// The gradient of a sum.
pub(crate) fn spread(grad: &Tensor, sizes: &[i64], dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    restored(grad, sizes.len(), dims, keepdim)?.expand(sizes)
}

/// The gradient of a mean.
pub(crate) fn mean(grad: &Tensor, sizes: &[i64], dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    spread(grad, sizes, dims, keepdim)? / count(sizes, dims) as f64
}

/// The gradient of a mean of what is not NaN.
pub(crate) fn nanmean(grad: &Tensor, x: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let is_nan = x.isnan()?;
    let counts = total_of(&is_nan.logical_not()?, &dims_of(x.rank(), dims))?;
    let share = (restored(grad, x.rank(), dims, keepdim)? / counts)?;
    masked(&share.expand(&x.sizes())?, &is_nan)
}

/// The elements that are the result, or NaN as it.
fn found(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    x.eq(result)?.logical_or(&x.isnan()?.logical_and(&result.isnan()?)?)
}

/// The gradient of an extremum or a median of all elements: in equal parts to those that are it.
pub(crate) fn evenly(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let found = found(x, result)?;
    kept(&(grad / found.sum()?)?, &found)
}

/// The gradient of an extremum along dimensions: in equal parts to those that are it.
pub(crate) fn extremum(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let rank = x.rank();
    let found = x.eq(&restored(result, rank, Some(dims), keepdim)?)?;
    let parts = total_of(&found, &dims_of(rank, Some(dims)))?;
    kept(&restored(grad, rank, Some(dims), keepdim)?, &found)? / parts
}

/// The gradient of both extrema.
pub(crate) fn aminmax(
    grads: &[Option<Tensor>],
    x: &Tensor,
    min: &Tensor,
    max: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let dims = dim.as_slice();
    let of = |grad: &Option<Tensor>, result: &Tensor| {
        grad.as_ref().map(|grad| extremum(grad, x, result, dims, keepdim)).transpose()
    };
    match (of(&grads[0], min)?, of(&grads[1], max)?) {
        (Some(min), Some(max)) => Ok(Some(min.add(&max)?)),
        (min, max) => Ok(min.or(max)),
    }
}

/// The gradient of elements that were chosen along a dimension, by their indices.
pub(crate) fn selected(
    grad: &Tensor,
    sizes: &[i64],
    indices: &Tensor,
    dim: i64,
    keepdim: bool,
) -> Result<Tensor> {
    if sizes.is_empty() {
        return Ok(grad.clone());
    }
    let (grad, indices) = match keepdim {
        true => (grad.clone(), indices.clone()),
        false => (grad.unsqueeze(dim)?, indices.unsqueeze(dim)?),
    };
    grad.new_zeros(sizes, TensorOptions::default())?.scatter_src(dim, &indices, &grad)
}

/// The gradient of the logarithm of a sum of exponentials: to each its share. Of nothing there are no shares.
pub(crate) fn logsumexp(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let rank = x.rank();
    let result = restored(result, rank, Some(dims), keepdim)?;
    let result = masked(&result, &result.eq_scalar(f64::NEG_INFINITY)?)?;
    restored(grad, rank, Some(dims), keepdim)? * (x - result)?.exp()?.conj()
}
