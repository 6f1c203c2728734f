//! Sizes, strides and offset as they are given.

use super::Strided;
use crate::error::{Error, Result};

impl Strided {
    /// `as_strided`. The offset is one in the storage; without it, it stays.
    pub(crate) fn restrided(
        &mut self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: Option<i64>,
    ) -> Result<()> {
        if sizes.len() != strides.len() {
            return Err(Error::shape("mismatch in length of strides and shape"));
        }
        if strides.iter().any(|&stride| stride < 0) {
            return Err(Error::shape(format!(
                "as_strided: Negative strides are not supported at the moment, got strides: {strides:?}"
            )));
        }
        let storage_offset = storage_offset.unwrap_or(self.storage_offset);
        if storage_offset < 0 {
            return Err(Error::shape(format!("Tensor: invalid storage offset {storage_offset}")));
        }
        self.sizes.assign(sizes);
        self.strides.assign(strides);
        self.storage_offset = storage_offset;
        Ok(())
    }
}
