//! [`Strided`]: where the elements of a tensor are in its storage.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dims, Geometry, Tensor};

/// Sizes, strides and offset: of a tensor, or of a view before it is one. What makes a view of them changes them in
/// place, and leaves them in some state where it returns an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) storage_offset: i64,
}

impl Strided {
    /// Those of a tensor.
    #[inline]
    pub(crate) fn of(tensor: &Tensor) -> Self {
        tensor.geometry().strided.clone()
    }

    /// The view of `tensor` with them.
    #[inline]
    pub(crate) fn view(self, tensor: &Tensor) -> Result<Tensor> {
        tensor.view_of(self.sizes, self.strides, self.storage_offset)
    }

    /// Gives `tensor` the places that `change` makes of its own, within the storage. On an error it stays.
    pub(crate) fn change(tensor: &Tensor, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        tensor.as_impl().change_geometry(|geometry| {
            let mut new = geometry.strided.clone();
            change(&mut new)?;
            let Self { sizes, strides, storage_offset } = new;
            Geometry::new(geometry.storage.clone(), sizes, strides, storage_offset, tensor.dtype())
        })?;
        tensor.geometry().storage.bump_version();
        Ok(())
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// Moves the first element `count` places of `dim` on.
    #[inline]
    pub(super) fn advance(&mut self, count: i64, dim: usize) -> Result<()> {
        let step = count.checked_mul(self.strides[dim]);
        self.storage_offset = step
            .and_then(|step| self.storage_offset.checked_add(step))
            .ok_or_else(|| Error::new(ErrorKind::Overflow, "Storage offset calculation overflowed"))?;
        Ok(())
    }

    /// Takes only every `step`th place of `dim`.
    #[inline]
    pub(super) fn stretch(&mut self, step: i64, dim: usize) -> Result<()> {
        self.strides[dim] = self.strides[dim].checked_mul(step).ok_or_else(overflowed)?;
        Ok(())
    }

    #[inline]
    pub(super) fn remove(&mut self, dim: usize) {
        self.sizes.remove(dim);
        self.strides.remove(dim);
    }
}

#[cold]
pub(super) fn overflowed() -> Error {
    Error::new(ErrorKind::Overflow, "Stride calculation overflowed")
}
