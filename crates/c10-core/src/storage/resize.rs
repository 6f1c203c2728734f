//! [`Storage::resize`] and [`Storage::reserve`].
//!
//! Within the capacity nothing moves. Beyond it the bytes go to a new block, which is allocated first. Host
//! bytes are copied, and the blocks swapped, under exclusive access. A device's copy calls hooks, so that
//! nothing may be locked: the old block is pinned (Note \[Pinned bytes\]) and copied, and then swapped if
//! nothing changed meanwhile, else all is done again. On any error the storage is as it was.
//!
//! Differs from PyTorch: `storage.resize_` moves on every change, also when shrinking. There the size is all
//! that is known of the block; here the capacity is kept beside it.

use super::access::{HOST_MOVE, Locked, Mode};
use super::cow::Pin;
use super::storage_impl::{READ_ONLY, RESIZABLE, StorageImpl};
use super::{Storage, fresh};
use crate::data_ptr::DataPtr;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

impl Storage {
    /// Changes the size, in bytes. The bytes that are kept stay as they are, new ones have unspecified values
    /// (initialised, on the host). 0 frees the memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the storage is not resizable or its memory was released,
    /// [`ErrorKind::ReadOnly`] when it is read-only, [`ErrorKind::Overflow`] for a size beyond `isize::MAX`,
    /// [`ErrorKind::Busy`] where this thread holds a guard and would have to wait for access; else what the
    /// allocator or a device reports. Nothing has changed then.
    pub fn resize(&self, size: usize) -> Result<()> {
        let storage = self.as_impl();
        storage.check_resizable()?;
        fresh::check_size(size)?;
        if size == 0 {
            return storage.resize_to_nothing();
        }
        if size <= storage.capacity() && storage.resize_in_place(size)? {
            return Ok(());
        }
        storage.move_to_larger(Some(size), size)
    }

    /// Makes the capacity at least `capacity` bytes, so that resizing up to there moves nothing. Growing by a
    /// factor, and not by a step, makes repeated growth cheap.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub fn reserve(&self, capacity: usize) -> Result<()> {
        let storage = self.as_impl();
        storage.check_resizable()?;
        fresh::check_size(capacity)?;
        if capacity <= storage.capacity() {
            return Ok(());
        }
        storage.move_to_larger(None, capacity)
    }
}

impl StorageImpl {
    fn check_resizable(&self) -> Result<()> {
        if self.has(READ_ONLY) {
            return Err(Error::new(ErrorKind::ReadOnly, "a read-only storage cannot be resized"));
        }
        if !self.has(RESIZABLE) {
            // PyTorch's text.
            return Err(Error::invalid_argument("Trying to resize storage that is not resizable"));
        }
        Ok(())
    }

    fn resize_to_nothing(&self) -> Result<()> {
        // Declared first, so that the old block ends after the locks.
        let _old;
        let _locked = Locked::take(self, Mode::Exclusive, HOST_MOVE)?;
        self.check_resizable()?;
        let mut owner = lock(&self.owner);
        _old = self.install(&mut owner, DataPtr::null(self.device()), 0, 0);
        Ok(())
    }

    fn resize_in_place(&self, size: usize) -> Result<bool> {
        let _locked = Locked::take(self, Mode::Exclusive, HOST_MOVE)?;
        self.check_resizable()?;
        let mut owner = lock(&self.owner);
        let fits = size <= self.capacity();
        if fits {
            self.set_size(&mut owner, size);
        }
        Ok(fits)
    }

    /// Moves to a block of `capacity` bytes, with the size `size` or the present one.
    fn move_to_larger(&self, size: Option<usize>, capacity: usize) -> Result<()> {
        // A writer that copies what is pinned here, and this, which copies what the writer left, could undo
        // each other's work again and again.
        const ATTEMPTS: usize = 100;
        for _ in 0..ATTEMPTS {
            let allocator = lock(&self.owner).allocator.clone();
            // Not resizable any more, since a moment ago.
            let Some(allocator) = allocator else { return self.check_resizable() };
            let block = fresh::allocate(&*allocator, self.device(), capacity)?;
            if self.device().is_cpu() {
                return self.move_on_host(block, size, capacity);
            }
            let pin = self.pin_bytes()?;
            let size = size.unwrap_or(pin.size());
            if size > capacity {
                // It grew past what was to be reserved.
                return Ok(());
            }
            fresh::copy(&*allocator, &block, pin.original(), size.min(pin.size()))?;
            if self.swap_pinned(&pin, block, size, capacity)? {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Busy, "others keep writing the storage that is to be resized"))
    }

    fn move_on_host(&self, block: DataPtr, size: Option<usize>, capacity: usize) -> Result<()> {
        // Declared first, so that the old block ends after the locks.
        let _old;
        let locked = Locked::take(self, Mode::Exclusive, HOST_MOVE)?;
        self.check_resizable()?;
        let size = size.unwrap_or(self.size());
        if size <= capacity {
            fresh::copy_on_host(&block, &locked, size.min(self.size()));
            _old = self.install(&mut lock(&self.owner), block, size, capacity);
        }
        Ok(())
    }

    /// Puts `block` in the place of what is pinned, if that is still there; says whether it was.
    fn swap_pinned(&self, pin: &Pin<'_>, block: DataPtr, size: usize, capacity: usize) -> Result<bool> {
        // Declared first, so that the old block ends after the locks.
        let _old;
        let _locked = Locked::take(self, Mode::Exclusive, HOST_MOVE)?;
        self.check_resizable()?;
        let mut owner = lock(&self.owner);
        if !pin.is_of(&owner) {
            return Ok(false);
        }
        _old = self.install(&mut owner, block, size, capacity);
        Ok(true)
    }
}
