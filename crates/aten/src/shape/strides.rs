//! Strides of dense tensors in each memory format.

use c10_core::MemoryFormat;

use super::contiguity::is_non_overlapping_and_dense;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Dims;

/// The dimensions of `(N, C, H, W)` from the innermost.
pub(super) const CHANNELS_LAST: [usize; 4] = [1, 3, 2, 0];
/// The dimensions of `(N, C, D, H, W)` from the innermost.
pub(super) const CHANNELS_LAST_3D: [usize; 5] = [1, 4, 3, 2, 0];

/// Strides of row-major elements; a size of 0 counts as 1.
pub(crate) fn contiguous_strides(sizes: &[i64]) -> Result<Dims> {
    in_order(sizes, (0..sizes.len()).rev())
}

/// Strides of a format other than [`MemoryFormat::Preserve`].
pub(crate) fn strides_of_format(sizes: &[i64], format: MemoryFormat) -> Result<Dims> {
    match format {
        MemoryFormat::Contiguous => contiguous_strides(sizes),
        MemoryFormat::ChannelsLast if sizes.len() == 4 => in_order(sizes, CHANNELS_LAST),
        MemoryFormat::ChannelsLast3d if sizes.len() == 5 => in_order(sizes, CHANNELS_LAST_3D),
        MemoryFormat::ChannelsLast => Err(Error::shape("required rank 4 tensor to use channels_last format")),
        MemoryFormat::ChannelsLast3d => {
            Err(Error::shape("required rank 5 tensor to use channels_last_3d format"))
        }
        _ => Err(Error::invalid_argument("unsupported memory format Preserve")),
    }
}

/// Dense strides that keep the order of the given ones (`at::infer_dense_strides`): the same, if they are
/// dense already.
pub(crate) fn dense_strides_like(sizes: &[i64], strides: &[i64]) -> Result<Dims> {
    if sizes.len() != strides.len() {
        return Err(Error::shape(format!("{sizes:?} are not the sizes of the strides {strides:?}")));
    }
    if is_non_overlapping_and_dense(sizes, strides) {
        return Ok(Dims::from(strides));
    }
    in_order(sizes, order_of(sizes, strides))
}

/// The dimensions from the innermost by stride, ambiguous ones (stride 0, or size 1) where they stand.
fn order_of(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
    // An insertion sort, since the order is partial: what cannot be compared is passed over.
    for i in 1..order.len() {
        let mut at = i;
        for below in (0..i).rev() {
            match compare(sizes, strides, order[below], order[at]) {
                std::cmp::Ordering::Greater => {
                    order.swap(below, at);
                    at = below;
                }
                std::cmp::Ordering::Less => break,
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    order
}

fn compare(sizes: &[i64], strides: &[i64], a: usize, b: usize) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    if strides[a] == 0 || strides[b] == 0 {
        return Ordering::Equal;
    }
    match strides[a].cmp(&strides[b]) {
        Ordering::Equal if sizes[a] > sizes[b] => Ordering::Greater,
        other => other,
    }
}

fn in_order(sizes: &[i64], innermost_first: impl IntoIterator<Item = usize>) -> Result<Dims> {
    let mut strides = Dims::filled(1, sizes.len());
    let mut next = 1_i64;
    for dim in innermost_first {
        strides[dim] = next;
        next = next.checked_mul(sizes[dim].max(1)).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("Stride calculation overflowed with sizes={sizes:?}"))
        })?;
    }
    Ok(strides)
}
