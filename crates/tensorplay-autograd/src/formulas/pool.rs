//! Gradients of pools that remember where an element came from.

use aten::{Result, Tensor};

/// What of the last `dims` dimensions, taken as one, is at the indices.
pub(crate) fn picked(grad: &Tensor, indices: &Tensor, dims: usize) -> Result<Tensor> {
    let flat = |sizes: &[i64]| -> Vec<i64> {
        let (outer, inner) = sizes.split_at(sizes.len() - dims);
        outer.iter().copied().chain([inner.iter().product()]).collect()
    };
    let sizes = indices.sizes();
    let places = indices.reshape(&flat(&sizes))?;
    grad.reshape(&flat(&grad.sizes()))?.gather(-1, &places)?.reshape(&sizes)
}
