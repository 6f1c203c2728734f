//! Dimensions by number, negative ones counted from the end.

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// `dim` as an index below `rank`, a negative one counted from the end (`c10::maybe_wrap_dim`). A rank of 0
/// counts as 1, as it does in PyTorch wherever a scalar may be reduced.
#[inline]
pub(crate) fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let bound = rank.max(1) as i64;
    if dim < -bound || dim >= bound {
        return Err(out_of_range(dim, bound));
    }
    Ok(if dim < 0 { dim + bound } else { dim } as usize)
}

#[cold]
fn out_of_range(dim: i64, bound: i64) -> Error {
    // PyTorch's text.
    Error::index(format!(
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -bound,
        bound - 1
    ))
}

/// As [`wrap_dim`], each dimension at most once.
pub(crate) fn wrap_dims(dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 5]>> {
    let mut wrapped = SmallVec::new();
    for &dim in dims {
        let dim = wrap_dim(dim, rank)?;
        if wrapped.contains(&dim) {
            return Err(Error::invalid_argument(format!(
                "dim {dim} appears multiple times in the list of dims"
            )));
        }
        wrapped.push(dim);
    }
    Ok(wrapped)
}
