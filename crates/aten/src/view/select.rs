//! One place of a dimension, which goes; and dimensions of size 1 that come and go.

use super::Strided;
use super::strided::overflowed;
use crate::error::{Error, Result};
use crate::shape::{wrap_dim, wrap_dims};

impl Strided {
    /// `select`: the place `index` of `dim`, counted from the end if negative.
    #[inline(always)]
    pub(crate) fn select(&mut self, dim: i64, index: i64) -> Result<()> {
        if self.rank() == 0 {
            return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
        }
        let dim = wrap_dim(dim, self.rank())?;
        let size = self.sizes[dim];
        if index < -size || index >= size {
            return Err(self.no_such_place(dim, index));
        }
        self.advance(if index < 0 { index + size } else { index }, dim)?;
        self.remove(dim);
        Ok(())
    }

    #[cold]
    fn no_such_place(&self, dim: usize, index: i64) -> Error {
        Error::index(format!(
            "select(): index {index} out of range for tensor of size {:?} at dimension {dim}",
            self.sizes
        ))
    }

    /// `squeeze` of all dimensions.
    pub(crate) fn squeeze(&mut self) {
        for dim in (0..self.rank()).rev() {
            if self.sizes[dim] == 1 {
                self.remove(dim);
            }
        }
    }

    /// `squeeze` of some dimensions, those of them that have size 1.
    pub(crate) fn squeeze_dims(&mut self, dims: &[i64]) -> Result<()> {
        let mut dims = wrap_dims(dims, self.rank())?;
        dims.sort_unstable();
        for &dim in dims.iter().rev() {
            if self.sizes.get(dim) == Some(&1) {
                self.remove(dim);
            }
        }
        Ok(())
    }

    /// `unsqueeze`: a dimension of size 1 before `dim`.
    pub(crate) fn unsqueeze(&mut self, dim: i64) -> Result<()> {
        let dim = wrap_dim(dim, self.rank() + 1)?;
        let stride = match self.sizes.get(dim) {
            Some(size) => size.checked_mul(self.strides[dim]).ok_or_else(overflowed)?,
            None => 1,
        };
        self.sizes.insert(dim, 1);
        self.strides.insert(dim, stride);
        Ok(())
    }
}
