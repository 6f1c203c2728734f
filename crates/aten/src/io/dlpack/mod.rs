#![expect(unsafe_code, reason = "reads structures, and owns memory, of other libraries in the same process")]
//! Memory shared with other libraries in one process, by the C structures of DLPack 1.x.
//!
//! [`ManagedTensor`] is such a structure, owned. One is made [of a tensor](ManagedTensor::new) and given away
//! [raw](ManagedTensor::into_raw), or [taken raw](ManagedTensor::from_raw) and made [a
//! tensor](ManagedTensor::into_tensor). Whoever owns it runs its deleter, once; the tensor memory is borrowed
//! and kept alive until then.
//!
//! ```
//! use aten::io::dlpack::ManagedTensor;
//! let tensor = aten::Tensor::from_elements(&[1.0_f32, 2.0])?;
//!
//! let exported = ManagedTensor::new(&tensor)?;
//! // `exported.into_raw()` would go to another library, whose structures `ManagedTensor::from_raw` takes.
//! assert!(exported.into_tensor()?.is_alias_of(&tensor));
//! # Ok::<(), aten::Error>(())
//! ```
//!
//! What crosses the border has no access lock: the other side reads and writes the memory when it likes, and
//! whoever gives or takes a raw structure answers for that. While a structure is out, the storage must not be
//! resized.

mod abi;
mod export;
mod import;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

pub use abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_IS_COPIED,
    FLAG_READ_ONLY, VERSION,
};

use crate::error::{Error, Result};
use crate::tensor::Tensor;

mod sealed {
    use super::{DLTensor, NonNull, Result, c_void};

    /// What the two structures have in common.
    pub trait Layout: Sized + 'static {
        /// One that `delete` frees.
        fn make(
            tensor: DLTensor,
            flags: u64,
            context: *mut c_void,
            delete: unsafe extern "C" fn(*mut Self),
        ) -> Self;
        /// Where the owner's own is.
        fn context(&self) -> *mut c_void;
        /// Whether it can carry a read-only mark.
        const HAS_FLAGS: bool;
        /// The array and its flags.
        ///
        /// # Errors
        /// The structure is of a version with another layout.
        fn array(&self) -> Result<(&DLTensor, u64)>;
        /// Runs the deleter.
        ///
        /// # Safety
        /// It is live and owned by the caller, who forgets it.
        unsafe fn delete(this: NonNull<Self>);
    }
}

use sealed::Layout;
use std::ffi::c_void;

/// An array of DLPack and the duty to delete it. `M` is one of its two structures, with a version or
/// ([`DLManagedTensor`]) without.
pub struct ManagedTensor<M: Layout = DLManagedTensorVersioned> {
    /// Live, and nobody else's to delete.
    raw: NonNull<M>,
    /// The tensor that it was made of here. It is given back as it is: a second storage on the same memory would have an
    /// access lock of its own.
    exported: Option<Tensor>,
}

// SAFETY: the structure is this value's alone, and `from_raw` asks that the deleter may run on any thread;
// `new` makes one whose deleter drops a `Tensor`, which is `Send`.
unsafe impl<M: Layout> Send for ManagedTensor<M> {}

impl<M: Layout> ManagedTensor<M> {
    /// Takes over a structure.
    ///
    /// # Safety
    /// It is as DLPack describes it, live, and nobody else deletes it; its deleter may run on any thread. Of
    /// another major version it is so up to the flags. Until the deleter runs, each element that sizes and
    /// strides reach is initialised memory of the device; nobody else writes it, nor reads it unless it is
    /// marked read-only, but while this side does neither.
    pub unsafe fn from_raw(raw: NonNull<M>) -> Self {
        Self { raw, exported: None }
    }

    /// The structure, whose deleter the caller has to run.
    #[must_use = "the memory leaks unless the deleter is run"]
    pub fn into_raw(self) -> NonNull<M> {
        let mut this = ManuallyDrop::new(self);
        // The structure has a handle of its own.
        this.exported = None;
        this.raw
    }

    /// The structure, to look at.
    pub fn as_raw(&self) -> &M {
        // SAFETY: it is live until `self` is dropped.
        unsafe { self.raw.as_ref() }
    }
}

impl<M: Layout> Drop for ManagedTensor<M> {
    fn drop(&mut self) {
        // SAFETY: it is live and owned, and nothing reads `raw` afterwards.
        unsafe { M::delete(self.raw) }
    }
}

impl<M: Layout> fmt::Debug for ManagedTensor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedTensor").field("raw", &self.raw).field("exported", &self.exported).finish()
    }
}

impl Layout for DLManagedTensorVersioned {
    const HAS_FLAGS: bool = true;

    fn make(
        dl_tensor: DLTensor,
        flags: u64,
        manager_ctx: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        Self { version: VERSION, manager_ctx, deleter: Some(deleter), flags, dl_tensor }
    }

    fn context(&self) -> *mut c_void {
        self.manager_ctx
    }

    fn array(&self) -> Result<(&DLTensor, u64)> {
        let DLPackVersion { major, minor } = self.version;
        if major != VERSION.major {
            return Err(Error::not_implemented(format!(
                "the array is of DLPack {major}.{minor}, and {}.x is understood",
                VERSION.major
            )));
        }
        Ok((&self.dl_tensor, self.flags))
    }

    unsafe fn delete(this: NonNull<Self>) {
        // SAFETY: the caller says that it is live; up to the flags all versions are alike.
        if let Some(deleter) = unsafe { (*this.as_ptr()).deleter } {
            // SAFETY: it is deleted once, by its own deleter.
            unsafe { deleter(this.as_ptr()) }
        }
    }
}

impl Layout for DLManagedTensor {
    const HAS_FLAGS: bool = false;

    fn make(
        dl_tensor: DLTensor,
        _: u64,
        manager_ctx: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        Self { dl_tensor, manager_ctx, deleter: Some(deleter) }
    }

    fn context(&self) -> *mut c_void {
        self.manager_ctx
    }

    fn array(&self) -> Result<(&DLTensor, u64)> {
        Ok((&self.dl_tensor, 0))
    }

    unsafe fn delete(this: NonNull<Self>) {
        // SAFETY: the caller says that it is live.
        if let Some(deleter) = unsafe { (*this.as_ptr()).deleter } {
            // SAFETY: it is deleted once, by its own deleter.
            unsafe { deleter(this.as_ptr()) }
        }
    }
}
