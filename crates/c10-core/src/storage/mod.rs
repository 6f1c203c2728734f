#![expect(unsafe_code, reason = "declares what a caller promises of memory that it makes a storage of")]
//! [`Storage`]: a shared handle on a piece of memory (`c10::Storage`, `c10::StorageImpl`).
//!
//! A storage has a size, an owner of its memory ([`DataPtr`]), perhaps an [`Allocator`] that more memory comes
//! from, and an access lock: who touches its bytes holds [access](Access). Handles are counted by
//! [`Shared`], and loom does not see the counts; with the last [`Storage`] the memory goes, whatever
//! [`WeakStorage`]s remain.
//!
//! Two storages never reach the same bytes, unless they share them copy-on-write. What makes a storage of
//! memory that it did not allocate is `unsafe` for that reason, among others.
//!
//! ```
//! use c10_core::storage::Storage;
//!
//! let storage = Storage::from_bytes(Box::from(*b"abc"))?;
//! storage.write()?.bytes_mut()?[0] = b'A';
//! assert_eq!(storage.read()?.bytes()?, b"Abc");
//! # Ok::<(), c10_core::Error>(())
//! ```

use std::fmt;
use std::sync::Arc;

#[cfg(not(loom))]
use crate::allocator::default_host_allocator;
use crate::allocator::{Allocator, get_allocator};
use crate::data_ptr::DataPtr;
use crate::device::{Device, DeviceType};
use crate::error::{Error, Result};
use crate::shared::{Keeping, Shared, WeakShared};

mod access;
mod copy_async;
mod cow;
mod dump;
mod fresh;
// The allocator whose blocks they have is not there under loom.
#[cfg(not(loom))]
pub(crate) mod kept;
#[cfg(feature = "mapped")]
mod from_mapped;
mod made_in;
mod migrate;
mod replace;
mod resize;
mod source;
mod storage_impl;

pub use access::{Access, AccessOptions, AccessSet, PendingUse, ReadGuard, WriteGuard};
pub use dump::{Layer, StorageDump};
#[cfg(feature = "leak-tracking")]
pub use dump::{capture_backtraces, live_storages};
pub use made_in::MadeIn;

use dump::Origin;
use source::Source;
use storage_impl::{READ_ONLY, RESIZABLE, StorageImpl};

/// A shared handle on a piece of memory (`c10::Storage`). A clone is another handle on the same memory.
#[derive(Clone)]
pub struct Storage(Keeping<StorageImpl>);

/// A handle that does not keep the memory alive (`c10::weak_intrusive_ptr<StorageImpl>`).
#[derive(Clone)]
pub struct WeakStorage(WeakShared<StorageImpl>);

/// What a storage is told of memory that was allocated elsewhere.
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    /// Where more memory, and that of copies, comes from.
    pub allocator: Option<Arc<dyn Allocator>>,
    /// It can be resized, which takes an allocator.
    pub resizable: bool,
    /// The memory must not be written, as that of a file mapped for reading: exclusive access is refused.
    pub read_only: bool,
}

impl Storage {
    /// A resizable storage of `size` bytes from `allocator`, with unspecified values (initialised, on the
    /// host).
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`](crate::ErrorKind::Overflow) for a size beyond `isize::MAX`; else as
    /// [`Allocator::allocate`].
    #[track_caller]
    pub fn new(size: usize, allocator: Arc<dyn Allocator>) -> Result<Self> {
        Self::from_source(size, allocator.into(), Origin::here())
    }

    /// As [`new`](Self::new), from the process's allocator of a device type, on the device that is current.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when there is none; else as
    /// [`new`](Self::new).
    #[track_caller]
    #[inline]
    pub fn of_type(size: usize, device_type: DeviceType) -> Result<Self> {
        #[cfg(not(loom))]
        if device_type == DeviceType::Cpu
            && kept::is_small(size)
            && let Some(allocator) = default_host_allocator()
        {
            return match kept::take(size) {
                Some(kept) => Ok(Self(kept.into())),
                None => Self::new_whole(size, allocator, Origin::here()),
            };
        }
        Self::from_source(size, Source::Registered(get_allocator(device_type)?), Origin::here())
    }

    /// A storage of few bytes from the host's own allocator, to be kept when it ends: see Note [Kept whole].
    #[cfg(not(loom))]
    #[inline(never)]
    fn new_whole(size: usize, allocator: &'static Arc<dyn Allocator>, origin: Origin) -> Result<Self> {
        let data_ptr = allocator.allocate(size)?;
        let source = Source::Registered(allocator);
        Ok(Self::from_parts(data_ptr, (size, size), Some(source), kept::WHOLE_FLAGS, origin))
    }

    #[inline]
    fn from_source(size: usize, allocator: Source, origin: Origin) -> Result<Self> {
        fresh::check_size(size)?;
        let data_ptr = allocator.allocate(size)?;
        Ok(Self::from_parts(data_ptr, (size, size), Some(allocator), RESIZABLE, origin))
    }

    /// The bytes of a boxed slice, not resizable. They are aligned as the slice was.
    ///
    /// # Errors
    /// None at present.
    #[track_caller]
    pub fn from_bytes(bytes: Box<[u8]>) -> Result<Self> {
        let origin = Origin::here();
        let size = bytes.len();
        let data_ptr = DataPtr::from_boxed_slice(bytes);
        Ok(Self::from_parts(data_ptr, (size, size), None, 0, origin))
    }

    /// `size` bytes of memory that was allocated elsewhere.
    ///
    /// # Safety
    /// Until the deleter of `data_ptr` runs, `size` bytes at its address are valid for reads, and for writes
    /// unless the options say read-only; host memory is initialised. Until then nobody reaches these bytes but
    /// through this storage; if it is read-only, others may read them too. The address is null only if `size`
    /// is 0 or the device has no memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it is to be resizable without an
    /// allocator or though read-only, [`ErrorKind::Overflow`](crate::ErrorKind::Overflow) for a size beyond
    /// `isize::MAX`. The memory is dropped then.
    #[track_caller]
    pub unsafe fn from_data_ptr(data_ptr: DataPtr, size: usize, options: StorageOptions) -> Result<Self> {
        let origin = Origin::here();
        fresh::check_size(size)?;
        if options.resizable && options.allocator.is_none() {
            // PyTorch's text.
            return Err(Error::invalid_argument("For resizable storage, allocator must be provided"));
        }
        if options.resizable && options.read_only {
            return Err(Error::invalid_argument("a read-only storage cannot be resizable"));
        }
        let flags =
            if options.resizable { RESIZABLE } else { 0 } | if options.read_only { READ_ONLY } else { 0 };
        let allocator = options.allocator.map(Source::from);
        Ok(Self::from_parts(data_ptr, (size, size), allocator, flags, origin))
    }

    #[inline(always)]
    fn from_parts(
        data_ptr: DataPtr,
        sizes: (usize, usize),
        allocator: Option<Source>,
        flags: u32,
        origin: Origin,
    ) -> Self {
        let storage = Shared::new(|| StorageImpl::new(data_ptr, sizes, allocator, flags, origin));
        storage.origin.made(&storage);
        Self(storage.into())
    }

    #[inline]
    fn as_impl(&self) -> &StorageImpl {
        &self.0
    }

    /// The size, in bytes.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.0.size()
    }

    /// How far it can be resized in place, in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The address, on the storage's device. Without access to the storage it is good for telling and
    /// comparing, and stale as soon as somebody resizes.
    #[inline]
    pub fn data_ptr(&self) -> *const u8 {
        self.0.address()
    }

    /// The device that the memory is on. It never changes.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device()
    }

    /// The type of that device.
    #[inline]
    pub fn device_type(&self) -> DeviceType {
        self.device().device_type()
    }

    /// Where more memory comes from, if from anywhere.
    pub fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        crate::sync::lock(&self.0.owner).allocator.as_ref().map(Source::to_arc)
    }

    /// Whether [`resize`](Self::resize) is allowed.
    pub fn is_resizable(&self) -> bool {
        self.0.has(RESIZABLE)
    }

    /// Whether exclusive access is refused.
    pub fn is_read_only(&self) -> bool {
        self.0.has(READ_ONLY)
    }

    /// How often the bytes were written, modulo 2³²: the version counter of the tensors that share it.
    #[inline]
    pub fn version(&self) -> u32 {
        self.0.version()
    }

    /// Adds one to the version, as a write does.
    #[inline]
    pub fn bump_version(&self) {
        self.0.bump_version();
    }

    /// The bytes of memory of the host that nobody else has a handle on, weak ones too, and that no device and no
    /// copy-on-write layer has to do with; else `None`. It takes no lock: the exclusive borrow of the only handle is
    /// as good. It does not count as a write. With the feature `leak-tracking` the list of live storages has a weak
    /// handle on each, and this is always `None`.
    ///
    /// ```
    /// # use c10_core::storage::Storage;
    /// let mut storage = Storage::from_bytes([1, 2].into())?;
    /// if let Some(bytes) = storage.unique_bytes() {
    ///     bytes[0] = 7;
    ///     assert_eq!(storage.read()?.bytes()?, [7, 2]);
    /// }
    /// let other = storage.clone();
    /// assert!(storage.unique_bytes().is_none());
    /// # drop(other);
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline]
    pub fn unique_bytes(&mut self) -> Option<&mut [u8]> {
        Shared::get_mut(&mut self.0).and_then(access::unique)
    }

    /// Whether two handles are of the same storage (`is_alias_of`).
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }

    /// How many [`Storage`] handles there are (`use_count`). Stale at once if others clone or drop theirs.
    #[inline]
    pub fn use_count(&self) -> usize {
        Shared::strong_count(&self.0)
    }

    /// How many [`WeakStorage`] handles there are. Stale at once if others clone or drop theirs.
    pub fn weak_use_count(&self) -> usize {
        Shared::weak_count(&self.0) - Origin::WEAK_HANDLES
    }

    /// A handle that does not keep the memory alive.
    pub fn downgrade(&self) -> WeakStorage {
        WeakStorage(Shared::downgrade(&self.0))
    }
}

/// Under loom there is no allocator of whose blocks storages are kept.
#[cfg(loom)]
impl crate::shared::Keep for StorageImpl {
    fn may_be_kept(&self) -> bool {
        false
    }

    fn keep(_last: Shared<Self>) {}
}

impl WeakStorage {
    /// A storage handle, if there is still one (`weak_intrusive_ptr::lock`).
    pub fn upgrade(&self) -> Option<Storage> {
        self.0.upgrade().map(|handle| Storage(handle.into()))
    }

    /// Whether the memory is gone (`expired`).
    pub fn expired(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("data_ptr", &self.data_ptr())
            .field("nbytes", &self.nbytes())
            .field("device", &format_args!("{}", self.device()))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upgrade() {
            Some(storage) => f.debug_tuple("WeakStorage").field(&storage).finish(),
            None => f.write_str("WeakStorage(expired)"),
        }
    }
}
