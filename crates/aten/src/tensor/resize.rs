//! Changing the geometry of a tensor in place.

use super::geometry::Geometry;
use super::{Dims, Tensor};
use crate::error::Result;

impl Tensor {
    /// Other sizes and strides at the same offset; the storage grows where they need it. Nothing has changed
    /// when it cannot.
    pub(crate) fn resize_geometry(&self, sizes: Dims, strides: Dims) -> Result<()> {
        let geometry = self.geometry();
        let storage = geometry.storage.clone();
        let new = Geometry::unbounded(storage, sizes, strides, geometry.storage_offset, self.dtype())?;
        if new.end_bytes > new.storage.nbytes() {
            new.storage.resize(new.end_bytes)?;
        }
        self.as_impl().change_geometry(|_| Ok(new))
    }
}
