//! Whether elements share memory (`at::has_internal_overlap`, `at::get_overlap_status`). What is too hard to
//! tell is allowed, as in PyTorch; the loops are sound all the same.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Geometry, Tensor};

/// Refuses to write to a tensor of which two elements are surely one.
pub(crate) fn check_no_internal_overlap(tensor: &Tensor) -> Result<()> {
    let geometry = tensor.geometry();
    if !geometry.flags.is_non_overlapping_and_dense()
        && geometry.sizes.iter().zip(&geometry.strides).any(|(&size, &stride)| size > 1 && stride == 0)
        && geometry.numel > 0
    {
        // PyTorch's text.
        return Err(Error::new(
            ErrorKind::Overlap,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory \
             location. Please clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// Refuses to write to a tensor that surely overlaps one that is read, unless they are the same elements in
/// the same order.
pub(crate) fn check_no_partial_overlap(written: &Tensor, read: &Tensor) -> Result<()> {
    if written.is_same(read) {
        return Ok(());
    }
    let (a, b) = (written.geometry(), read.geometry());
    if overlap(&a, &b, written.dtype().element_size(), read.dtype().element_size()) {
        return Err(partial());
    }
    Ok(())
}

#[cold]
fn partial() -> Error {
    // PyTorch's text.
    Error::new(
        ErrorKind::Overlap,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single \
         memory location. Please clone() the tensor before performing the operation.",
    )
}

fn overlap(a: &Geometry, b: &Geometry, a_element: usize, b_element: usize) -> bool {
    if a.numel == 0
        || b.numel == 0
        || !a.storage.is_same(&b.storage)
        || !a.flags.is_non_overlapping_and_dense()
        || !b.flags.is_non_overlapping_and_dense()
    {
        return false;
    }
    let begin = |g: &Geometry, element: usize| g.storage_offset as usize * element;
    let (a_begin, b_begin) = (begin(a, a_element), begin(b, b_element));
    if a_begin == b_begin && a.end_bytes == b.end_bytes && a.strides == b.strides {
        return false;
    }
    a_begin < b.end_bytes && b_begin < a.end_bytes
}
