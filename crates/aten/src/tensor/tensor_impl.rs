//! [`TensorImpl`]: what all handles of one tensor share (`c10::TensorImpl`).
//!
//! Who may touch what:
//! - `dtype`, `device`, `keys`, `is_wrapped_number`, `made_by`, `output`, `view_*` never change once
//!   there are two handles.
//! - `first` is the geometry that the tensor was made with. It never changes either, so that it is read with
//!   no lock. The first change (`resize_`, `set_`, `transpose_` and kin) puts a copy in `Rare::changed`, and from
//!   then on that one counts, under its lock: the *geometry lock*. It is taken before any access to a
//!   storage, and nothing is called under it.
//! - The version counter is the storage's, which all views share; it is bumped under exclusive access.
//!
//! // Note [Geometry that never changed]
//! Almost no tensor ever changes its geometry, and every operator reads it. With the first geometry immutable
//! a read is one load and no store. The price is paid by tensors that do change: their reads take a lock and
//! copy, and they keep a handle on the storage they were made with until they end.

use std::any::Any;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use c10_core::shared::SharedAny;
use c10_core::{Device, ScalarType};

use super::Tensor;
use super::autograd_seam::AutogradMeta;
use super::geometry::{Geometry, Snapshot};
use crate::dispatch::DispatchKeySet;
use crate::error::Result;

pub(crate) struct TensorImpl {
    first: Geometry,
    /// What made the tensor, if an autograd crate said so when it was just made, and nobody could meet it.
    made_by: Option<SharedAny>,
    /// As which of its results.
    output: u32,
    /// Shared with nobody: the end of an `Arc` is a call out of the way, that of a `Box` is in it.
    rare: OnceLock<Arc<Rare>>,
    pub(super) keys: DispatchKeySet,
    pub(super) device: Device,
    pub(super) dtype: ScalarType,
    pub(super) is_wrapped_number: bool,
    /// What the autograd crate says of how the view was made.
    pub(super) view_mark: u8,
    /// The version of the storage when the base was set.
    pub(super) view_version: u32,
    /// The tensor that this one is a view of, where an autograd crate follows views.
    pub(super) view_base: Option<Tensor>,
}

/// What few tensors have.
#[derive(Default)]
struct Rare {
    changed: OnceLock<RwLock<Geometry>>,
    /// What an autograd crate keeps with the tensor.
    autograd: OnceLock<Box<dyn AutogradMeta>>,
    backend_data: OnceLock<Box<dyn Any + Send + Sync>>,
}

// Note [Size of TensorImpl]
// Two lists of up to five numbers inline are 112 bytes, of PyTorch's 176 they are 96; the rest is what follows from
// them and is read by every operator, a place for autograd, and one for all that few tensors have.
const _: () = assert!(size_of::<TensorImpl>() <= 216, "TensorImpl has grown: see Note [Size of TensorImpl]");

impl TensorImpl {
    #[inline(always)]
    pub(super) fn new(geometry: Geometry, dtype: ScalarType, device: Device, keys: DispatchKeySet) -> Self {
        Self {
            first: geometry,
            made_by: None,
            output: 0,
            rare: OnceLock::new(),
            keys,
            device,
            dtype,
            is_wrapped_number: false,
            view_mark: 0,
            view_version: 0,
            view_base: None,
        }
    }

    /// The geometry now.
    #[inline]
    pub(crate) fn geometry(&self) -> Snapshot<'_> {
        match self.changed() {
            None => Snapshot::Unchanged(&self.first),
            Some(changed) => Snapshot::Copied(copy_of(changed)),
        }
    }

    /// What `f` says of the geometry now: with nothing to end afterwards, of most tensors.
    #[inline(always)]
    pub(super) fn with_geometry<R>(&self, f: impl Fn(&Geometry) -> R) -> R {
        match self.unchanged() {
            Some(geometry) => f(geometry),
            None => f(&self.geometry()),
        }
    }

    /// The geometry, if it is the first still.
    #[inline]
    pub(crate) fn unchanged(&self) -> Option<&Geometry> {
        match self.changed() {
            None => Some(&self.first),
            Some(_) => None,
        }
    }

    #[inline]
    fn changed(&self) -> Option<&RwLock<Geometry>> {
        self.rare.get().and_then(|rare| rare.changed.get())
    }

    /// The geometry of a tensor that was just made, to be changed before anybody sees it.
    #[inline(always)]
    pub(super) fn first_mut(&mut self) -> &mut Geometry {
        &mut self.first
    }

    /// Whether no other tensor has the storage that this one was made with: a view is not kept.
    #[inline]
    pub(super) fn has_storage_alone(&self) -> bool {
        self.first.storage.use_count() == 1
    }

    /// Ends the storage of a tensor that is about to end and may be kept, if that can be: see
    /// Note \[Kept whole\] in `c10-core/src/storage/kept.rs`.
    #[inline]
    pub(super) fn rest(&mut self) -> bool {
        self.first.is_inline()
            && self.rare.get().is_none()
            && self.view_base.is_none()
            && self.first.storage.rest()
    }

    /// Makes the storage of a tensor that [rested](Self::rest) one of so many bytes, and says whether it did.
    #[inline]
    pub(super) fn wake(&mut self, bytes: usize) -> bool {
        self.first.storage.wake(bytes)
    }

    /// Makes it, of one that [rested](Self::rest), a plain tensor, but for the geometry.
    #[inline]
    pub(super) fn begin_anew(&mut self, dtype: ScalarType, device: Device, keys: DispatchKeySet) {
        (self.dtype, self.device, self.keys, self.is_wrapped_number) = (dtype, device, keys, false);
    }

    #[inline]
    pub(super) fn forget_made_by(&mut self) -> Option<SharedAny> {
        self.made_by.take()
    }

    /// Puts what `change` makes of the geometry in its place, under the geometry lock. On an error it stays.
    /// `change` calls no operator, allocator or hook.
    pub(crate) fn change_geometry(&self, change: impl FnOnce(&Geometry) -> Result<Geometry>) -> Result<()> {
        let changed = self.rare().changed.get_or_init(|| RwLock::new(self.first.clone()));
        let mut geometry = changed.write().unwrap_or_else(PoisonError::into_inner);
        let new = change(&geometry)?;
        let old = std::mem::replace(&mut *geometry, new);
        drop(geometry);
        // It may be the last handle on its storage, whose deleter runs under no lock.
        drop(old);
        Ok(())
    }

    /// Whether there are handles on the storage besides this tensor's own. Stale at once.
    pub(crate) fn shares_storage(&self) -> bool {
        let Some(changed) = self.changed() else { return self.first.storage.use_count() > 1 };
        let changed = changed.read().unwrap_or_else(PoisonError::into_inner);
        let own = if changed.storage.is_same(&self.first.storage) { 2 } else { 1 };
        changed.storage.use_count() > own
    }

    /// The bytes of the storage, if nobody else has it and it is still the first.
    #[inline]
    pub(super) fn unique_bytes(&mut self) -> Option<&mut [u8]> {
        if self.changed().is_some() {
            return None;
        }
        self.first.storage.unique_bytes()
    }

    /// The bytes of the elements, in the order in which they lie, if nobody else has them, there is no more in the
    /// storage, and nothing is known of the tensor but its geometry.
    #[inline]
    pub(super) fn own_elements(&mut self) -> Option<&mut [u8]> {
        let is_plain = self.made_by.is_none()
            && self.rare.get().is_none()
            && self.view_base.is_none()
            && !self.is_wrapped_number
            // Others may know of memory that was allocated elsewhere.
            && self.first.storage.is_resizable()
            // A new tensor would be at the first version.
            && self.first.storage.version() == 0
            && self.first.flags.is_non_overlapping_and_dense();
        let size = self.first.numel as usize * self.dtype.element_size();
        let bytes = if is_plain { self.first.storage.unique_bytes() } else { None };
        bytes.filter(|bytes| bytes.len() == size)
    }

    /// Says what made the tensor, unless anything is known of that.
    #[inline]
    pub(super) fn set_made_by(&mut self, node: SharedAny, output: u32) -> std::result::Result<(), SharedAny> {
        if self.made_by.is_some() || self.autograd().is_some() {
            return Err(node);
        }
        (self.made_by, self.output) = (Some(node), output);
        Ok(())
    }

    #[inline]
    pub(crate) fn made_by(&self) -> Option<(&SharedAny, u32)> {
        Some((self.made_by.as_ref()?, self.output))
    }

    #[inline]
    pub(crate) fn autograd(&self) -> Option<&dyn AutogradMeta> {
        self.rare.get()?.autograd.get().map(|autograd| &**autograd)
    }

    pub(crate) fn autograd_or_init(&self, make: impl FnOnce() -> Box<dyn AutogradMeta>) -> &dyn AutogradMeta {
        &**self.rare().autograd.get_or_init(make)
    }

    pub(crate) fn backend_data(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.rare.get()?.backend_data.get().map(|data| &**data)
    }

    pub(crate) fn backend_data_or_init(
        &self,
        make: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        &**self.rare().backend_data.get_or_init(make)
    }

    #[cold]
    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Arc::default)
    }
}

/// A copy of what there is under the geometry lock.
#[cold]
fn copy_of(changed: &RwLock<Geometry>) -> Box<Geometry> {
    Box::new(changed.read().unwrap_or_else(PoisonError::into_inner).clone())
}
