//! [`Strided`]: where the elements of a view are to be.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dims, Extent, Geometry, Tensor};

/// Sizes, strides and offset of a view before it is one.
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
        Self::of_geometry(&tensor.geometry())
    }

    #[inline(always)]
    fn of_geometry(geometry: &Geometry) -> Self {
        Self {
            sizes: geometry.sizes.clone(),
            strides: geometry.strides.clone(),
            storage_offset: geometry.storage_offset,
        }
    }

    /// The view of `tensor` with them.
    #[inline]
    pub(crate) fn view(self, tensor: &Tensor) -> Result<Tensor> {
        tensor.view_of(self.sizes, self.strides, self.storage_offset)
    }

    /// The view of `tensor` with what `change` makes of its dimensions and the number of its elements. They are all of
    /// the tensor's: how many there are and where they end needs no second look.
    #[inline(always)]
    pub(crate) fn rearranged(
        tensor: &Tensor,
        change: impl FnOnce(Self, i64) -> Result<Self>,
    ) -> Result<Tensor> {
        let own = tensor.geometry();
        let Self { sizes, strides, storage_offset } = change(Self::of_geometry(&own), own.numel)?;
        let extent = Extent::of_all(&own, tensor.dtype())?;
        debug_assert!(
            Extent::of(&sizes, &strides, storage_offset, tensor.dtype()).is_ok_and(|here| (
                here.numel,
                here.end_bytes
            ) == (
                extent.numel,
                extent.end_bytes
            )),
            "{sizes:?} with {strides:?} are other elements than those of {tensor:?}"
        );
        Ok(tensor.viewed(|| Geometry {
            flags: own.flags.rearranged(&sizes, &strides, extent.numel),
            storage: own.storage.clone(),
            sizes,
            strides,
            storage_offset,
            numel: extent.numel,
            end_bytes: extent.end_bytes,
        }))
    }

    /// Gives `tensor` the places that `change` makes of its own, within the storage. On an error it stays.
    pub(crate) fn change(tensor: &Tensor, change: impl FnOnce(Self) -> Result<Self>) -> Result<()> {
        tensor.as_impl().change_geometry(|geometry| {
            let Self { sizes, strides, storage_offset } = change(Self::of_geometry(geometry))?;
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
