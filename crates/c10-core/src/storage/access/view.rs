#![expect(unsafe_code, reason = "makes slices of host memory that is locked for as long as they live")]
//! Bytes of a locked storage as slices.

use std::slice;

use super::HOST_WRITE;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::storage_impl::StorageImpl;

/// The bytes of a storage.
///
/// # Safety
/// For `'a`, somebody holds access to `storage` that was taken with at least `HOST_READ` as obstacles, and
/// nobody gets a `&mut` to the bytes.
///
/// # Errors
/// [`ErrorKind::NotImplemented`] when the host cannot reach them.
pub(super) unsafe fn shared(storage: &StorageImpl) -> Result<&[u8]> {
    let Some((address, bytes)) = host_memory(storage)? else { return Ok(&[]) };
    // SAFETY: `Storage`'s constructors promise `bytes` initialised bytes at `address`, no more than
    // `isize::MAX`, reached only through their storage; the access lock that the caller answers for keeps the
    // memory in place (S1) and its bytes unwritten (S3).
    Ok(unsafe { slice::from_raw_parts(address, bytes) })
}

/// The bytes of a storage, to write.
///
/// # Safety
/// For `'a`, the holder of exclusive access to `storage`, which was taken with at least `HOST_WRITE` as
/// obstacles, makes no other reference to the bytes.
///
/// # Errors
/// [`ErrorKind::NotImplemented`] when the host cannot reach them.
#[expect(clippy::mut_from_ref, reason = "exclusive access stands for the exclusive borrow")]
pub(super) unsafe fn exclusive(storage: &StorageImpl) -> Result<&mut [u8]> {
    let Some((address, bytes)) = host_memory(storage)? else { return Ok(&mut []) };
    // SAFETY: as in `shared`; the memory is neither read-only nor shared by a copy-on-write layer, since both
    // are obstacles to the access that the caller answers for (S3).
    Ok(unsafe { slice::from_raw_parts_mut(address, bytes) })
}

/// The bytes of a storage that nobody else has, if nothing is in the way of a write by the host.
#[inline]
pub(crate) fn unique(storage: &mut StorageImpl) -> Option<&mut [u8]> {
    if storage.has(HOST_WRITE) {
        return None;
    }
    // SAFETY: there is no other reference to the storage, so that nobody has access, and nothing is in the way.
    unsafe { exclusive(storage) }.ok()
}

/// Address and size of memory that the host can reach; `None` when there are no bytes.
fn host_memory(storage: &StorageImpl) -> Result<Option<(*mut u8, usize)>> {
    if !storage.device().is_cpu() {
        return Err(Error::new(
            ErrorKind::NotImplemented,
            format!("the host cannot reach the bytes of a storage on {}", storage.device()),
        ));
    }
    let (address, bytes) = (storage.address(), storage.size());
    Ok((bytes > 0).then_some((address, bytes)))
}
