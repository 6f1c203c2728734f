#![expect(unsafe_code, reason = "copies between blocks whose sizes their makers promise")]
//! New memory for a storage, on its device, and copies into it within one type of device.
//!
//! Where these call allocators and hooks, nothing is locked.

use std::ptr;
use std::sync::Arc;

use super::access::Locked;
use crate::allocator::{Allocator, get_allocator};
use crate::data_ptr::DataPtr;
use crate::device::{Device, DeviceType};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::OptionalDeviceGuard;
use crate::hooks::{DeviceHooks, Place, hooks};
use crate::stream::Stream;

/// `bytes` bytes on `device`.
pub(super) fn allocate(allocator: &dyn Allocator, device: Device, bytes: usize) -> Result<DataPtr> {
    check_size(bytes)?;
    // A backend that has an allocator and no hooks has one device, which is always current.
    let switched = hooks(device.device_type()).map(|_| device);
    let _guard = OptionalDeviceGuard::new(switched)?;
    let block = allocator.allocate(bytes)?;
    if block.device() != device {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            format!("{allocator:?} gave memory on {} for a storage on {device}", block.device()),
        ));
    }
    Ok(block)
}

/// The process's allocator for a type of device: the registered one, or else its hooks'.
pub(super) fn default_allocator(device_type: DeviceType) -> Result<Arc<dyn Allocator>> {
    match (get_allocator(device_type), hooks(device_type)) {
        (Ok(allocator), _) => Ok(Arc::clone(allocator)),
        (Err(_), Some(hooks)) => Ok(hooks.allocator()),
        (Err(error), None) => Err(error),
    }
}

/// Copies the first `bytes` bytes of `src` to `dst`, which is as large and on the same device, in the order of the
/// device's current stream: it may return before the copy is done.
///
/// `src` is kept alive by the caller until this returns, and by `record_stream` until the device is done.
pub(super) fn copy(allocator: &dyn Allocator, dst: &DataPtr, src: &DataPtr, bytes: usize) -> Result<()> {
    enqueue(allocator, dst, src, bytes).map(|_| ())
}

/// As [`copy`], and done when it returns.
pub(super) fn copy_now(allocator: &dyn Allocator, dst: &DataPtr, src: &DataPtr, bytes: usize) -> Result<()> {
    match enqueue(allocator, dst, src, bytes)? {
        Some((hooks, stream)) => hooks.synchronize_stream(stream),
        None => Ok(()),
    }
}

/// Begins a copy, and says whose stream it is on; `None` when it is done.
fn enqueue(
    allocator: &dyn Allocator,
    dst: &DataPtr,
    src: &DataPtr,
    bytes: usize,
) -> Result<Option<(&'static dyn DeviceHooks, Stream)>> {
    // There is nothing to copy where there is no memory, as on `meta`.
    if bytes == 0 || src.as_ptr().is_null() || dst.as_ptr().is_null() {
        return Ok(None);
    }
    let device = src.device();
    let reaching = hooks(device.device_type())
        .zip(device.index())
        .filter(|(hooks, _)| hooks.check_reachable(src).and_then(|()| hooks.check_reachable(dst)).is_ok());
    let Some((hooks, index)) = reaching else {
        // Memory of the host, or of a driver that is not the process's, is for its own allocator to copy.
        // SAFETY: `allocate` gave `dst` for at least `bytes` bytes, nobody else has it yet, so that they do not
        // overlap; `src` is the memory of a storage of at least this size (S1), pinned by the caller.
        unsafe { allocator.copy_data(dst.as_ptr(), src.as_ptr(), bytes) }?;
        return Ok(None);
    };
    let stream = hooks.current_stream(index)?;
    // Before the copy, so that no failure leaves one that uses freed memory.
    hooks.record_stream(src, stream)?;
    hooks.record_stream(dst, stream)?;
    let place = |ptr: &DataPtr| Place { address: ptr.as_ptr(), device };
    // SAFETY: as above; and neither is given out anew before the stream has done the copy.
    unsafe { hooks.copy(place(dst), place(src), bytes, stream) }?;
    Ok(Some((hooks, stream)))
}

/// Copies the first `bytes` bytes of a locked storage of the host to `block`, which is as large. It calls
/// nobody.
pub(super) fn copy_on_host(block: &DataPtr, locked: &Locked<'_>, bytes: usize) {
    assert!(
        block.device().is_cpu() && locked.storage().device().is_cpu() && bytes <= locked.storage().size()
    );
    if bytes > 0 {
        // SAFETY: the storage has this many bytes, which stay in place and unwritten by others while it is
        // locked (S1, S3); `allocate` gave `block` for as many, and nobody else has it.
        unsafe { ptr::copy_nonoverlapping(locked.storage().address(), block.as_ptr(), bytes) };
    }
}

/// Refuses what cannot be the size of any object.
#[inline]
pub(super) fn check_size(bytes: usize) -> Result<()> {
    if isize::try_from(bytes).is_ok() { Ok(()) } else { Err(too_large(bytes)) }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    Error::new(ErrorKind::Overflow, format!("a storage of {bytes} bytes is larger than the address space"))
}
