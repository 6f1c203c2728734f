//! Which layouts sizes and strides are in, by PyTorch's rules.

use c10_core::MemoryFormat;

use super::strides::{CHANNELS_LAST, CHANNELS_LAST_3D};

/// Whether these are the strides that [`contiguous_strides`](super::contiguous_strides) gives, of dimensions of size
/// 1 too.
#[inline]
pub(crate) fn is_canonical(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1_i64;
    sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let here = stride == expected;
        expected = expected.saturating_mul(size.max(1));
        here
    })
}

/// Dense in the order of `format`, a channels-last one. Tensors without elements get no special treatment.
pub(crate) fn is_channels_last_contiguous(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    match format {
        MemoryFormat::ChannelsLast => sizes.len() == 4 && dense_in_order(sizes, strides, CHANNELS_LAST),
        MemoryFormat::ChannelsLast3d => sizes.len() == 5 && dense_in_order(sizes, strides, CHANNELS_LAST_3D),
        _ => false,
    }
}

#[inline]
fn dense_in_order(sizes: &[i64], strides: &[i64], innermost_first: impl IntoIterator<Item = usize>) -> bool {
    let mut expected = 1_i64;
    for dim in innermost_first {
        if sizes[dim] != 1 {
            if strides[dim] != expected {
                return false;
            }
            expected = expected.saturating_mul(sizes[dim]);
        }
    }
    true
}

/// Whether the strides lean to channels last (`is_channels_last_strides`): their order, dense or not, with
/// the ambiguous cases decided as PyTorch decides them.
pub(crate) fn prefers_channels_last(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    let order: &[usize] = match format {
        MemoryFormat::ChannelsLast if sizes.len() == 4 => &CHANNELS_LAST,
        MemoryFormat::ChannelsLast3d if sizes.len() == 5 => &CHANNELS_LAST_3D,
        _ => return false,
    };
    if strides[1] == 0 {
        return false;
    }
    let mut min = 0;
    for &dim in order {
        if sizes[dim] == 0 || strides[dim] < min || (dim == 0 && min == strides[1]) {
            return false;
        }
        min = strides[dim].saturating_mul(sizes[dim].max(1));
    }
    true
}

/// Each element has a place of its own and no place between them is empty: some order of the dimensions is
/// contiguous.
pub(crate) fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    // Each stride must be the product of the sizes of smaller strides, so that no more than one dimension comes
    // next, and as many are found as there are. Sizes below 2 have no say.
    let mut expected = 1_i64;
    for _ in sizes.iter().filter(|&&size| size >= 2) {
        let next = sizes.iter().zip(strides).find(|&(&size, &stride)| size >= 2 && stride == expected);
        match next {
            Some((&size, _)) => expected = expected.saturating_mul(size),
            None => return false,
        }
    }
    true
}
