//! Parts of a dimension.

use super::Strided;
use crate::error::{Error, Result};
use crate::shape::wrap_dim;

impl Strided {
    /// `slice`: from `start` to before `end` by `step`, each counted from the end if negative, and cut to what
    /// is there.
    #[inline(always)]
    pub(crate) fn slice(&mut self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<()> {
        if self.rank() == 0 {
            return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
        }
        let dim = wrap_dim(dim, self.rank())?;
        if step <= 0 {
            return Err(Error::invalid_argument("slice step must be positive"));
        }
        let size = self.sizes[dim];
        let place = |at: i64| if at < 0 { at + size } else { at }.clamp(0, size);
        let start = place(start.unwrap_or(0));
        let end = place(end.unwrap_or(i64::MAX)).max(start);
        self.advance(start, dim)?;
        self.stretch(step, dim)?;
        let length = end - start;
        self.sizes[dim] = length / step + i64::from(length % step != 0);
        Ok(())
    }

    /// `narrow`: `length` places from `start`, which must be there.
    #[inline(always)]
    pub(crate) fn narrow(&mut self, dim: i64, start: i64, length: i64) -> Result<()> {
        let (dim, start) = narrowed(&self.sizes, dim, start, length)?;
        self.advance(start, dim)?;
        self.sizes[dim] = length;
        Ok(())
    }
}

/// The dimension and the first place of a `narrow`, both counted from the front, if all its places are there.
#[inline]
pub(crate) fn narrowed(sizes: &[i64], dim: i64, start: i64, length: i64) -> Result<(usize, i64)> {
    if sizes.is_empty() {
        return Err(Error::shape("narrow() cannot be applied to a 0-dim tensor."));
    }
    if length < 0 {
        return Err(Error::invalid_argument("narrow(): length must be non-negative."));
    }
    let dim = wrap_dim(dim, sizes.len())?;
    let size = sizes[dim];
    if start < -size || start > size {
        return Err(no_such_start(start, size));
    }
    let start = if start < 0 { start + size } else { start };
    if length > size - start {
        return Err(too_long(start, length, size));
    }
    Ok((dim, start))
}

#[cold]
fn no_such_start(start: i64, size: i64) -> Error {
    Error::index(format!(
        "start out of range (expected to be in range of [{}, {size}], but got {start})",
        -size
    ))
}

#[cold]
fn too_long(start: i64, length: i64, size: i64) -> Error {
    Error::shape(format!("start ({start}) + length ({length}) exceeds dimension size ({size})."))
}
