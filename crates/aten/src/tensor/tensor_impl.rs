//! [`TensorImpl`]: what all handles of one tensor share (`c10::TensorImpl`).
//!
//! Who may touch what:
//! - `dtype`, `device`, `keys`, `is_wrapped_number`, `view_*` never change once there are two
//!   handles.
//! - `first` is the geometry that the tensor was made with. It never changes either, so that it is read with
//!   no lock. The first change (`resize_`, `set_`, `transpose_` and kin) puts a copy in `changed`, and from
//!   then on that one counts, under its lock: the *geometry lock*. It is taken before any access to a
//!   storage, and nothing is called under it.
//! - The version counter is the storage's, which all views share; it is bumped under exclusive access.
//!
//! // Note [Geometry that never changed]
//! Almost no tensor ever changes its geometry, and every operator reads it. With the first geometry immutable
//! a read is one load and no store. The price is paid by tensors that do change: their reads take a lock and
//! copy, and they keep a handle on the storage they were made with until they end.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{OnceLock, PoisonError, RwLock};

use c10_core::{Device, ScalarType};

use super::Tensor;
use super::autograd_seam::AutogradMeta;
use super::geometry::Geometry;
use crate::dispatch::DispatchKeySet;
use crate::error::Result;

pub(crate) struct TensorImpl {
    first: Geometry,
    changed: OnceLock<Box<RwLock<Geometry>>>,
    autograd: AutogradPlace,
    /// Boxed twice, so that its place is small: few tensors have any.
    backend_data: OnceLock<Box<Box<dyn Any + Send + Sync>>>,
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

/// What an autograd crate keeps with the tensor. What was given by who made the tensor, whom nobody could meet, has a
/// place of its own: a `OnceLock` takes two atomic operations to fill.
struct AutogradPlace {
    first: Option<Box<dyn AutogradMeta>>,
    later: OnceLock<Box<Box<dyn AutogradMeta>>>,
}

// Note [Size of TensorImpl]
// Two lists of up to five numbers inline are 96 bytes, as in PyTorch's 176; the rest is what follows from them
// and is read by every operator, and one pointer-sized slot for each of the things that few tensors have.
const _: () = assert!(size_of::<TensorImpl>() <= 232, "TensorImpl has grown: see Note [Size of TensorImpl]");

impl TensorImpl {
    #[inline(always)]
    pub(super) fn new(geometry: Geometry, dtype: ScalarType, device: Device, keys: DispatchKeySet) -> Self {
        Self {
            first: geometry,
            changed: OnceLock::new(),
            autograd: AutogradPlace { first: None, later: OnceLock::new() },
            backend_data: OnceLock::new(),
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
    pub(crate) fn geometry(&self) -> Cow<'_, Geometry> {
        match self.changed.get() {
            None => Cow::Borrowed(&self.first),
            Some(changed) => Cow::Owned(changed.read().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// The geometry of a tensor that was just made, to be changed before anybody sees it.
    #[inline]
    pub(super) fn first_mut(&mut self) -> &mut Geometry {
        &mut self.first
    }

    /// Puts what `change` makes of the geometry in its place, under the geometry lock. On an error it stays.
    /// `change` calls no operator, allocator or hook.
    pub(crate) fn change_geometry(&self, change: impl FnOnce(&Geometry) -> Result<Geometry>) -> Result<()> {
        let changed = self.changed.get_or_init(|| Box::new(RwLock::new(self.first.clone())));
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
        let Some(changed) = self.changed.get() else { return self.first.storage.use_count() > 1 };
        let changed = changed.read().unwrap_or_else(PoisonError::into_inner);
        let own = if changed.storage.is_same(&self.first.storage) { 2 } else { 1 };
        changed.storage.use_count() > own
    }

    /// The bytes of the storage, if nobody else has it and it is still the first.
    #[inline]
    pub(super) fn unique_bytes(&mut self) -> Option<&mut [u8]> {
        if self.changed.get().is_some() {
            return None;
        }
        self.first.storage.unique_bytes()
    }

    /// Fills the place of the autograd crate, if it is empty.
    #[inline]
    pub(super) fn set_autograd(&mut self, make: impl FnOnce() -> Box<dyn AutogradMeta>) -> bool {
        let is_empty = self.autograd().is_none();
        if is_empty {
            self.autograd.first = Some(make());
        }
        is_empty
    }

    #[inline]
    pub(crate) fn autograd(&self) -> Option<&dyn AutogradMeta> {
        match &self.autograd.first {
            Some(first) => Some(&**first),
            None => self.autograd.later.get().map(|later| &***later),
        }
    }

    pub(crate) fn autograd_or_init(
        &self,
        make: impl FnOnce() -> Box<dyn AutogradMeta>,
    ) -> &dyn AutogradMeta {
        match &self.autograd.first {
            Some(first) => &**first,
            None => &***self.autograd.later.get_or_init(|| Box::new(make())),
        }
    }

    pub(crate) fn backend_data(&self) -> &OnceLock<Box<Box<dyn Any + Send + Sync>>> {
        &self.backend_data
    }
}
