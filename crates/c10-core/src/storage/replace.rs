#![expect(unsafe_code, reason = "declares what a caller promises of memory that it puts into a storage")]
//! Putting other memory into a storage, and taking its memory away.
//!
//! The device of a storage never changes: what is put in is on the same one.
//! Differs from PyTorch: there it can be of any device, and tensors on the storage go wrong.

use super::access::{HOST_MOVE, HOST_WRITE, Locked, Mode};
use super::storage_impl::{READ_ONLY, RELEASED, RESIZABLE, StorageImpl};
use super::{Storage, fresh};
use crate::data_ptr::DataPtr;
use crate::error::{Error, Result};
use crate::sync::lock;

impl Storage {
    /// Puts `new` in the place of the memory, which is returned. The size stays, and the capacity is the size.
    ///
    /// A copy-on-write layer is materialised first, so that what is returned is nobody else's.
    ///
    /// # Safety
    /// As [`from_data_ptr`](Self::from_data_ptr), of `new` and [`nbytes`](Self::nbytes) bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write), and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when `new` is on another device.
    /// Nothing has changed then, and `new` is dropped.
    pub unsafe fn set_data_ptr(&self, mut new: DataPtr) -> Result<DataPtr> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.swap_data_ptr(&mut new) }?;
        Ok(new)
    }

    /// Swaps the memory with `other`. The size stays, and the capacity is the size.
    ///
    /// # Safety
    /// As [`from_data_ptr`](Self::from_data_ptr), of `other` and [`nbytes`](Self::nbytes) bytes.
    ///
    /// # Errors
    /// As [`set_data_ptr`](Self::set_data_ptr). `other` is still the caller's then.
    pub unsafe fn swap_data_ptr(&self, other: &mut DataPtr) -> Result<()> {
        let storage = self.as_impl();
        storage.check_device(other)?;
        let _locked = Locked::take(storage, Mode::Exclusive, HOST_WRITE)?;
        let mut owner = lock(&storage.owner);
        let size = storage.size();
        let new = std::mem::take(other);
        *other = storage.install(&mut owner, new, size, size);
        Ok(())
    }

    /// Puts somebody else's memory of `size` bytes in the place of the storage's
    /// (`UniqueStorageShareExternalPointer`): there is no allocator then, and the storage is not resizable.
    ///
    /// # Safety
    /// As [`from_data_ptr`](Self::from_data_ptr), of `data_ptr` and `size` bytes.
    ///
    /// # Errors
    /// As [`set_data_ptr`](Self::set_data_ptr).
    pub unsafe fn share_external_pointer(&self, data_ptr: DataPtr, size: usize) -> Result<()> {
        let storage = self.as_impl();
        fresh::check_size(size)?;
        storage.check_device(&data_ptr)?;
        // Declared first, so that the old block ends after the locks.
        let _old;
        let _locked = Locked::take(storage, Mode::Exclusive, HOST_MOVE | READ_ONLY)?;
        let mut owner = lock(&storage.owner);
        storage.clear_flags(RESIZABLE);
        _old = (storage.install(&mut owner, data_ptr, size, size), owner.allocator.take());
        Ok(())
    }

    /// Frees the memory; every later access fails with `message`, or PyTorch's text for that
    /// (`release_data_and_set_meta_custom_data_ptr_error_msg_`). The size can still be asked.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where this thread holds a guard and would have to wait;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it was released before; else what
    /// a device reports that was waited for.
    pub fn release_data(&self, message: Option<String>) -> Result<()> {
        let storage = self.as_impl();
        // Declared first, so that the old block ends after the locks.
        let _old;
        let _locked = Locked::take(storage, Mode::Exclusive, HOST_MOVE)?;
        let mut owner = lock(&storage.owner);
        owner.message = message.map(String::into_boxed_str);
        storage.set_flags(RELEASED);
        let size = storage.size();
        _old = storage.install(&mut owner, DataPtr::null(storage.device()), size, 0);
        Ok(())
    }
}

impl StorageImpl {
    fn check_device(&self, data_ptr: &DataPtr) -> Result<()> {
        if data_ptr.device() != self.device() {
            return Err(Error::invalid_argument(format!(
                "memory on {} cannot become that of a storage on {}",
                data_ptr.device(),
                self.device()
            )));
        }
        Ok(())
    }
}
