#![expect(unsafe_code, reason = "makes storages of memory whose size only this crate says")]
//! [`Storage::from_mapped`]: a storage of a file's bytes.

use std::sync::Arc;

use super::{Storage, StorageOptions};
use crate::allocator::{Allocator, Mapped};
use crate::error::Result;

impl Storage {
    /// The bytes of a file, mapped or read (`UntypedStorage.from_file`). With an allocator it is resizable, and what
    /// it is resized to comes from there; but what was mapped read-only is not, and refuses
    /// [`write`](Self::write) with [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly).
    ///
    /// ```
    /// use c10_core::allocator::{ConfinedRoot, MappedFile};
    /// use c10_core::{ErrorKind, Storage};
    ///
    /// let root = ConfinedRoot::open(std::env::temp_dir())?;
    /// let scratch = Storage::from_mapped(MappedFile::temporary(&root, 1 << 20)?.into_mapped(), None)?;
    /// scratch.write()?.bytes_mut()?[0] = 7;
    /// assert_eq!(scratch.resize(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// None at present.
    #[track_caller]
    pub fn from_mapped(mapped: Mapped, allocator: Option<Arc<dyn Allocator>>) -> Result<Self> {
        let (size, read_only) = (mapped.nbytes(), mapped.is_read_only());
        let options = StorageOptions { resizable: allocator.is_some() && !read_only, allocator, read_only };
        // SAFETY: `Mapped`s are made by this crate alone, of as many initialised bytes as they say, which nobody else
        // reaches: they are the process's own, or whoever mapped a named file has promised that.
        unsafe { Self::from_data_ptr(mapped.into_data_ptr(), size, options) }
    }
}
