//! Where a dimension is cut into parts.

use crate::error::{Error, Result};
use crate::reserve::reserved;

/// The lengths of the parts of `split`: `split_size` each, the last what is left.
pub(crate) fn split_lengths(size: i64, split_size: i64) -> Result<Vec<i64>> {
    if split_size < 0 {
        return Err(Error::invalid_argument(format!(
            "split expects split_size be non-negative, but got split_size={split_size}"
        )));
    }
    if split_size == 0 && size != 0 {
        return Err(Error::invalid_argument(format!(
            "split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        )));
    }
    if size == 0 {
        return Ok(vec![0]);
    }
    let mut lengths = vec![split_size; (size / split_size) as usize];
    if size % split_size != 0 {
        lengths.push(size % split_size);
    }
    Ok(lengths)
}

/// Checks the lengths of `split_with_sizes`.
pub(crate) fn check_lengths(size: i64, dim: usize, lengths: &[i64]) -> Result<()> {
    if lengths.iter().any(|&length| length < 0) {
        return Err(Error::invalid_argument(format!(
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={lengths:?}"
        )));
    }
    let sum = lengths.iter().try_fold(0_i64, |sum, &length| sum.checked_add(length));
    if sum == Some(size) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but \
         got split_sizes={lengths:?}"
    )))
}

/// The lengths of the parts of `chunk`: at most `chunks` of equal length, the last what is left. Of nothing
/// there are exactly `chunks`.
pub(crate) fn chunk_lengths(size: i64, chunks: i64) -> Result<Vec<i64>> {
    if chunks <= 0 {
        return Err(Error::invalid_argument(format!(
            "chunk expects `chunks` to be greater than 0, got: {chunks}"
        )));
    }
    if size == 0 {
        return parts(chunks, |_| 0);
    }
    split_lengths(size, size / chunks + i64::from(size % chunks != 0))
}

/// The lengths of the parts of `tensor_split` into `sections`, which differ by one at most.
pub(crate) fn section_lengths(size: i64, sections: i64) -> Result<Vec<i64>> {
    if sections <= 0 {
        return Err(Error::invalid_argument(format!(
            "number of sections must be larger than 0, got {sections}"
        )));
    }
    parts(sections, |part| size / sections + i64::from(part < size % sections))
}

/// One number for each part, if memory holds that many.
fn parts(count: i64, length: impl Fn(i64) -> i64) -> Result<Vec<i64>> {
    let mut lengths = reserved(usize::try_from(count).unwrap_or(usize::MAX))?;
    lengths.extend((0..count).map(length));
    Ok(lengths)
}
