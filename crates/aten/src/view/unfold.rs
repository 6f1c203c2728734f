//! Windows that slide over a dimension.

use super::Strided;
use crate::error::{Error, Result};
use crate::shape::wrap_dim;

impl Strided {
    /// `unfold`: each window of `size` places, `step` apart; the place in the window is a new last dimension.
    pub(crate) fn unfold(&mut self, dimension: i64, size: i64, step: i64) -> Result<()> {
        let dim = wrap_dim(dimension, self.rank())?;
        let (places, stride) = match self.sizes.get(dim) {
            Some(&places) => (places, self.strides[dim]),
            None => (1, 1),
        };
        if size > places {
            return Err(Error::shape(format!(
                "maximum size for tensor at dimension {dim} is {places} but size is {size}"
            )));
        }
        if size < 0 {
            return Err(Error::invalid_argument(format!("size is {size} but must be >= 0")));
        }
        if step <= 0 {
            return Err(Error::invalid_argument(format!("step is {step} but must be > 0")));
        }
        if dim < self.rank() {
            self.sizes[dim] = (places - size) / step + 1;
            self.stretch(step, dim)?;
        }
        self.sizes.push(size);
        self.strides.push(stride);
        Ok(())
    }
}
