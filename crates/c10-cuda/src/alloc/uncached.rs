#![expect(unsafe_code, reason = "frees driver memory when the DataPtr that owns it ends")]
//! Memory straight from the driver, where caching is off (`PYTORCH_NO_CUDA_MEMORY_CACHING`). Its calls disturb no
//! capture: see Note [Captures].

use std::ffi::c_void;

use c10_core::DataPtr;
use c10_core::data_ptr::{DeleterEntry, same_deleter};

use super::device::Device;
use super::oom;
use super::size::REQUEST_CAP;
use crate::captures::Captures;
use crate::driver::{DevicePtr, Driver, Status};
use crate::drop_errors::DropErrors;
use crate::error::{Error, OutOfMemory, Result};
use crate::sync::Arc;

/// `bytes` bytes of the driver, which go back to it at the end. Nothing is counted.
pub(crate) fn allocate(from: &Device, bytes: u64) -> Result<DataPtr> {
    let ptr = malloc(from, bytes)?;
    let owner = Owner {
        driver: Arc::clone(&from.driver),
        captures: Arc::clone(&from.captures),
        errors: Arc::clone(&from.drop_errors),
        ptr,
    };
    let owner = Box::into_raw(Box::new(owner));
    let address = std::ptr::without_provenance_mut(ptr.0 as usize);
    // SAFETY: the driver's memory is valid until it is freed, which only `run` does, once.
    Ok(unsafe { DataPtr::new(address, owner.cast(), &DELETER, c10_core::Device::cuda(from.index)) })
}

/// Whether memory came from here, whoever's allocator it was.
pub(crate) fn is_own(ptr: &DataPtr) -> bool {
    same_deleter(ptr.root().deleter(), &DELETER)
}

/// The driver that memory from here came from; `None` for memory from elsewhere.
pub(crate) fn driver_of(ptr: &DataPtr) -> Option<&Arc<dyn Driver>> {
    // SAFETY: contexts under `DELETER` are owners.
    let owner = unsafe { ptr.root().cast_context::<Owner>(&DELETER) }?;
    // SAFETY: `ptr` has not ended, so that its owner is there; owners are never written.
    Some(&unsafe { owner.as_ref() }.driver)
}

static DELETER: DeleterEntry = DeleterEntry::new("cuda_uncached", run);

struct Owner {
    driver: Arc<dyn Driver>,
    captures: Arc<Captures>,
    errors: Arc<DropErrors>,
    ptr: DevicePtr,
}

unsafe fn run(context: *mut c_void) {
    // SAFETY: `allocate` made the context from a box of this type, and a deleter runs once.
    let owner = unsafe { Box::from_raw(context.cast::<Owner>()) };
    let _relaxed = owner.captures.relaxed(&*owner.driver);
    // SAFETY: the `DataPtr` that owned the memory has ended. Work of its stream may be under way: the driver's
    // free waits for that.
    let freed = unsafe { owner.driver.free(owner.ptr) };
    owner.errors.note(freed);
}

/// The driver's memory for a raw call.
pub(crate) fn malloc(from: &Device, bytes: u64) -> Result<DevicePtr> {
    let (driver, device) = (&from.driver, from.index);
    if bytes >= REQUEST_CAP {
        return Err(oom::too_large(device, bytes));
    }
    let _relaxed = from.captures.relaxed(&**driver)?;
    driver.malloc(device, bytes).map_err(|error| {
        if error.status != Status::OutOfMemory {
            return error.into();
        }
        let (device_free, device_total) =
            driver.memory_info(device).map_or((0, 0), |info| (info.free, info.total));
        let numbers = OutOfMemory {
            device,
            requested: bytes,
            tried: bytes,
            device_total,
            device_free,
            ..OutOfMemory::default()
        };
        Error::oom(numbers, format!("CUDA out of memory. Tried to allocate {bytes} bytes with caching off."))
    })
}

/// Gives the memory of a raw call back.
///
/// # Safety
/// `ptr` came from [`malloc`], and no work uses it that its stream does not order before this.
pub(crate) unsafe fn free(from: &Device, ptr: DevicePtr) -> Result<()> {
    let _relaxed = from.captures.relaxed(&*from.driver)?;
    // SAFETY: the caller gives up the memory, which came from `malloc`.
    Ok(unsafe { from.driver.free(ptr) }?)
}
