//! [`Tensor`]: the handle that users hold (`at::Tensor`), and what it shares (`TensorImpl`).

mod dims;
mod options;
mod autograd_seam;
mod geometry;
mod kept;
mod tensor_impl;
mod access;
mod access_element;
mod access_set;
mod access_slice;
mod access_view;
mod make;
mod math_bits;
mod from;
mod nested;
mod read;
mod resize;
mod methods;
mod operators;

use std::any::Any;
use std::fmt;

use c10_core::shared::{Keeping, Shared, SharedAny, WeakShared};
use c10_core::{Device, MemoryFormat, ScalarType, Storage};

pub use access_element::AccessElement;
pub use access_set::{Access, AccessSet};
pub use access_slice::{ReadGuard, WriteGuard};
pub use access_view::{ElementCells, ElementCellsMut};
pub use autograd_seam::AutogradMeta;
pub use dims::Dims;
pub use methods::*;
pub use nested::Nested;
pub use options::TensorOptions;

pub(crate) use access::{Fresh, Plain, Read, Write, access, check_end, for_words};
pub(crate) use geometry::{Geometry, Snapshot};
pub(crate) use make::{New, default_dtype, dense_like};
use tensor_impl::TensorImpl;

use crate::dispatch::local::view_mark;
use crate::dispatch::{DispatchKey, DispatchKeySet};

/// An n-dimensional array of one dtype on one device: a shared handle, one pointer wide (`at::Tensor`).
///
/// A clone is another handle on the same tensor. A view is another tensor on the same [`Storage`]. The
/// undefined tensor is `Option::<Tensor>::None`, which takes no more room.
#[derive(Clone)]
pub struct Tensor(Keeping<TensorImpl>);

const _: () = assert!(size_of::<Option<Tensor>>() == size_of::<usize>());

/// A handle that does not keep the tensor alive (`c10::weak_intrusive_ptr<TensorImpl>`).
#[derive(Clone)]
pub struct WeakTensor(WeakShared<TensorImpl>);

impl Tensor {
    /// Sizes, strides, offset and storage, as they are at this moment.
    #[inline]
    pub(crate) fn geometry(&self) -> Snapshot<'_> {
        self.0.geometry()
    }

    #[inline]
    pub(crate) fn as_impl(&self) -> &TensorImpl {
        &self.0
    }

    /// The size of each dimension.
    #[inline]
    pub fn sizes(&self) -> Dims {
        self.0.with_geometry(|geometry| geometry.sizes.clone())
    }

    /// The stride of each dimension, in elements.
    #[inline]
    pub fn strides(&self) -> Dims {
        self.0.with_geometry(|geometry| geometry.strides.clone())
    }

    /// Whether the sizes are these.
    #[inline]
    pub fn has_sizes(&self, sizes: &[i64]) -> bool {
        self.0.with_geometry(|geometry| geometry.sizes == *sizes)
    }

    /// The number of dimensions (`dim`).
    #[inline]
    pub fn rank(&self) -> usize {
        self.geometry().sizes.len()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.geometry().numel
    }

    /// Where in the storage the first element is, in elements.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        self.geometry().storage_offset
    }

    /// The type of an element (`scalar_type`).
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.0.dtype
    }

    /// The device that the elements are on. It never changes.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// The keys by which operators on this tensor find their kernels.
    #[inline]
    pub fn key_set(&self) -> DispatchKeySet {
        self.0.keys
    }

    /// A handle on the memory that the tensor and its views share.
    #[inline]
    pub fn storage(&self) -> Storage {
        self.geometry().storage.clone()
    }

    /// How often the elements, or those of a view, were written (`_version`).
    #[inline]
    pub fn version(&self) -> u32 {
        self.geometry().storage.version()
    }

    /// Row-major, without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.geometry().flags.is_contiguous(MemoryFormat::Contiguous)
    }

    /// Dense in the order of a memory format. Nothing is in [`MemoryFormat::Preserve`].
    #[inline]
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        self.geometry().flags.is_contiguous(format)
    }

    /// Each element has a place of its own, with no gaps between them.
    #[inline]
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.geometry().flags.is_non_overlapping_and_dense()
    }

    /// The memory format that results should have (`suggest_memory_format`).
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        self.geometry().flags.suggested_format()
    }

    /// It has a shape and no elements.
    #[inline]
    pub fn is_meta(&self) -> bool {
        self.device() == Device::META
    }

    /// It was made from a number, which counts less in type promotion than a tensor does.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.0.is_wrapped_number
    }

    /// It was made in [inference mode](crate::dispatch::local::InferenceModeGuard), and is not followed by autograd
    /// (`is_inference`).
    #[inline]
    pub fn is_inference(&self) -> bool {
        !self.key_set().has(DispatchKey::AdInplaceOrView)
    }

    /// Whether two handles are of one tensor (`is_same`).
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }

    /// Whether two tensors share their storage (`is_alias_of`).
    #[inline]
    pub fn is_alias_of(&self, other: &Self) -> bool {
        self.geometry().storage.is_same(&other.geometry().storage)
    }

    /// How many handles there are (`use_count`). Stale at once if others clone or drop theirs.
    pub fn use_count(&self) -> usize {
        Shared::strong_count(&self.0)
    }

    /// The bytes of the whole storage of a tensor of the host, if this is the only handle on either and the
    /// tensor never changed.
    #[inline]
    pub(crate) fn unique_bytes(&mut self) -> Option<&mut [u8]> {
        Shared::get_mut(&mut self.0).and_then(TensorImpl::unique_bytes)
    }

    /// The bytes of its elements, in the order in which they lie, if this is the only handle on the tensor and on its
    /// storage, which has no more, and nothing is known of the tensor that another would not have.
    #[inline]
    pub(crate) fn own_elements(&mut self) -> Option<&mut [u8]> {
        Shared::get_mut(&mut self.0).and_then(TensorImpl::own_elements)
    }

    /// A handle that does not keep the tensor alive.
    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(Shared::downgrade(&self.0))
    }

    /// What an autograd crate keeps with the tensor, if it keeps anything.
    #[inline]
    pub fn autograd_meta(&self) -> Option<&dyn AutogradMeta> {
        self.0.autograd()
    }

    /// What an autograd crate keeps with the tensor; `make` gives it the first time.
    pub fn autograd_meta_or_init(&self, make: impl FnOnce() -> Box<dyn AutogradMeta>) -> &dyn AutogradMeta {
        self.0.autograd_or_init(make)
    }

    /// What made the tensor, and as which of its results, if an autograd crate has [said so](Self::set_made_by). It
    /// counts while there is no [`autograd_meta`](Self::autograd_meta).
    #[inline]
    pub fn made_by(&self) -> Option<(&SharedAny, u32)> {
        self.0.made_by()
    }

    /// Says what made a tensor that was just made.
    ///
    /// # Errors
    /// It is given back if this is not the only handle, or something was said or is kept already.
    #[inline]
    pub fn set_made_by(&mut self, node: SharedAny, output: u32) -> Result<(), SharedAny> {
        match Shared::get_mut(&mut self.0) {
            Some(this) => this.set_made_by(node, output),
            None => Err(node),
        }
    }

    /// Whether an autograd crate follows the tensor: it made it, or keeps anything with it.
    #[inline]
    fn has_autograd(&self) -> bool {
        self.made_by().is_some() || self.autograd_meta().is_some()
    }

    /// Whether an autograd crate follows the tensor or what it is a view of. Of a call where no tensor is followed no
    /// gradient can be wanted.
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.has_autograd() || self.view_base().is_some_and(Self::has_autograd)
    }

    /// Whether operators on the tensor are to be recorded, whatever it is a view of.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.autograd_meta().map_or_else(|| self.made_by().is_some(), |own| own.requires_grad())
    }

    /// The tensor that this one is a view of, and is no view itself, if an autograd crate has
    /// [said so](Self::set_view_base) (`_base`).
    #[inline]
    pub fn view_base(&self) -> Option<&Self> {
        self.0.view_base.as_ref()
    }

    /// What was said of the view when its base was set.
    #[inline]
    pub fn view_mark(&self) -> u8 {
        self.0.view_mark
    }

    /// The version when the base was set.
    #[inline]
    pub fn view_version(&self) -> u32 {
        self.0.view_version
    }

    /// Says that the tensor is a view of `base`, and how it was made. For autograd crates, of tensors that were
    /// just made: whether this is the only handle, and anything was done.
    #[inline]
    pub fn set_view_base(&mut self, base: Self, mark: u8) -> bool {
        let Some(this) = Shared::get_mut(&mut self.0) else { return false };
        this.view_version = this.geometry().storage.version();
        (this.view_base, this.view_mark) = (Some(base), mark);
        true
    }

    /// The tensor, which was just made as a view of `of`, marked as such where its kernel was called with `keys` of
    /// autograd: see Note [Calls that nobody follows].
    #[inline(always)]
    pub(crate) fn linked_to(mut self, of: &Self, keys: DispatchKeySet) -> Self {
        if !(keys & DispatchKeySet::AUTOGRAD).is_empty() {
            self.link_to(of);
        }
        self
    }

    #[inline]
    fn link_to(&mut self, of: &Self) {
        let mark = view_mark().max(of.view_mark());
        self.set_view_base(of.view_base().unwrap_or(of).clone(), mark);
    }

    /// What an out-of-tree backend keeps with the tensor, if it keeps anything.
    pub fn backend_data(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.backend_data()
    }

    /// What an out-of-tree backend keeps with the tensor; `make` gives it the first time.
    pub fn backend_data_or_init(
        &self,
        make: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        self.0.backend_data_or_init(make)
    }
}

impl WeakTensor {
    /// A tensor handle, if there is still one.
    pub fn upgrade(&self) -> Option<Tensor> {
        self.0.upgrade().map(|handle| Tensor(handle.into()))
    }

    /// Whether the tensor is gone.
    pub fn expired(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = self.geometry();
        f.debug_struct("Tensor")
            .field("dtype", &format_args!("{}", self.dtype().name()))
            .field("device", &format_args!("{}", self.device()))
            .field("sizes", &geometry.sizes)
            .field("strides", &geometry.strides)
            .field("storage_offset", &geometry.storage_offset)
            .field("storage", &geometry.storage)
            .finish()
    }
}

impl fmt::Debug for WeakTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upgrade() {
            Some(tensor) => f.debug_tuple("WeakTensor").field(&tensor).finish(),
            None => f.write_str("WeakTensor(expired)"),
        }
    }
}
