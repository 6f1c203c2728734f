//! Dimensions repeated by a stride of 0.

use super::Strided;
use super::strided::overflowed;
use crate::error::{Error, Result};
use crate::tensor::Dims;

impl Strided {
    /// `expand`: dimensions of size 1, and new leading ones, take any size. -1 keeps a size.
    pub(crate) fn expand(&mut self, sizes: &[i64]) -> Result<()> {
        let Some(lead) = sizes.len().checked_sub(self.rank()) else {
            return Err(Error::shape(format!(
                "expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in \
                 the tensor ({})",
                sizes.len(),
                self.rank()
            )));
        };
        let mut new_sizes = Dims::filled(0, sizes.len());
        let mut new_strides = Dims::filled(0, sizes.len());
        for (at, &wanted) in sizes.iter().enumerate().rev() {
            let (size, stride) = match at.checked_sub(lead) {
                Some(dim) => (self.sizes[dim], self.strides[dim]),
                None if wanted < 0 => {
                    return Err(Error::shape(format!(
                        "The expanded size of the tensor ({wanted}) isn't allowed in a leading, non-existing \
                         dimension {at}"
                    )));
                }
                None if self.sizes.is_empty() => (1, 0),
                None => {
                    let inner: (i64, i64) = (new_sizes[at + 1], new_strides[at + 1]);
                    (1, inner.0.checked_mul(inner.1).ok_or_else(overflowed)?)
                }
            };
            (new_sizes[at], new_strides[at]) = match wanted {
                -1 => (size, stride),
                _ if wanted == size => (size, stride),
                0.. if size == 1 => (wanted, 0),
                _ => {
                    return Err(Error::shape(format!(
                        "The expanded size of the tensor ({wanted}) must match the existing size ({size}) at \
                         non-singleton dimension {at}.  Target sizes: {sizes:?}.  Tensor sizes: {:?}",
                        self.sizes
                    )));
                }
            };
        }
        (self.sizes, self.strides) = (new_sizes, new_strides);
        Ok(())
    }
}
