//! Whether elements can be seen in another shape, and what a size of -1 stands for.

use crate::error::{Error, Result};
use crate::tensor::Dims;

/// `shape` with its -1, if there is one, replaced by what makes it hold `numel` elements
/// (`at::infer_size`).
pub(crate) fn infer_size(shape: &[i64], numel: i64) -> Result<Dims> {
    let mut inferred = None;
    let mut product = 1_i64;
    for (dim, &size) in shape.iter().enumerate() {
        match size {
            -1 if inferred.replace(dim).is_some() => {
                return Err(Error::shape("only one dimension can be inferred"));
            }
            -1 => {}
            // What overflows fits no number of elements, unless another size is 0.
            0.. => product = product.saturating_mul(size),
            _ => {
                return Err(Error::shape(format!(
                    "invalid shape dimension {size} at index {dim} of shape {shape:?}"
                )));
            }
        }
    }
    let mut sizes = Dims::from(shape);
    let fits = match inferred {
        None => product == numel,
        Some(dim) if product > 0 && numel % product == 0 => {
            sizes[dim] = numel / product;
            true
        }
        Some(_) if product == 0 && numel == 0 => {
            return Err(Error::shape(format!(
                "cannot reshape tensor of 0 elements into shape {shape:?} because the unspecified dimension size \
                 -1 can be any value and is ambiguous"
            )));
        }
        Some(_) => false,
    };
    if fits {
        return Ok(sizes);
    }
    Err(Error::shape(format!("shape '{shape:?}' is invalid for input of size {numel}")))
}

/// The strides with which the elements of `sizes` and `strides` lie in the shape `new`, if any do
/// (`at::detail::computeStride`). `new` holds as many elements.
///
/// Old dimensions that lie in memory as one do form a chunk; each chunk must be cut by new dimensions alone.
pub(crate) fn strides_in_shape(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    if sizes.is_empty() {
        return Some(Dims::filled(1, new.len()));
    }
    if sizes.contains(&0) {
        return strides_without_elements(sizes, strides, new);
    }
    let mut new_strides = Dims::filled(0, new.len());
    let mut chunk_stride = *strides.last()?;
    let (mut chunk_numel, mut view_numel) = (1_i64, 1_i64);
    let mut left = new.len();
    for dim in (0..sizes.len()).rev() {
        chunk_numel = chunk_numel.checked_mul(sizes[dim])?;
        let ends = match dim.checked_sub(1) {
            None => true,
            Some(outer) => sizes[outer] != 1 && Some(strides[outer]) != chunk_numel.checked_mul(chunk_stride),
        };
        if !ends {
            continue;
        }
        while left > 0 && (view_numel < chunk_numel || new[left - 1] == 1) {
            left -= 1;
            new_strides[left] = view_numel.checked_mul(chunk_stride)?;
            view_numel = view_numel.checked_mul(new[left])?;
        }
        if view_numel != chunk_numel {
            return None;
        }
        if dim > 0 {
            chunk_stride = strides[dim - 1];
            (chunk_numel, view_numel) = (1, 1);
        }
    }
    if left > 0 {
        return None;
    }
    keep_free_strides(sizes, strides, new, &mut new_strides);
    Some(new_strides)
}

/// Where the shapes begin alike, dimensions of size 1 keep their strides.
///
/// Differs from PyTorch: it gives them the strides of a row-major tensor, by which one that is in channels-last
/// order is no longer known as such.
fn keep_free_strides(sizes: &[i64], strides: &[i64], new: &[i64], new_strides: &mut [i64]) {
    for (dim, (&size, &new_size)) in sizes.iter().zip(new).enumerate() {
        match (size, new_size) {
            (1, 1) => new_strides[dim] = strides[dim],
            _ if size == new_size => {}
            _ => break,
        }
    }
}

fn strides_without_elements(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    if sizes == new {
        return Some(Dims::from(strides));
    }
    let mut new_strides = Dims::filled(1, new.len());
    for dim in (0..new.len().saturating_sub(1)).rev() {
        new_strides[dim] = new_strides[dim + 1].checked_mul(new[dim + 1].max(1))?;
    }
    Some(new_strides)
}
