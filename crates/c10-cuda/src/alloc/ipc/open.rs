#![expect(
    unsafe_code,
    reason = "opens and closes memory that another process keeps, and gives out owners of it"
)]
//! Opening what another process shares: once for all who ask, closed when the last of them ends.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;

use c10_core::data_ptr::DeleterEntry;
use c10_core::{DataPtr, Device, DeviceIndex};

use super::handle::Shared;
use crate::alloc::CachingAllocator;
use crate::alloc::expandable::{ExpandableSegment, release};
use crate::captures::{Captures, Quiet};
use crate::driver::{DevicePtr, Driver, DriverError, PhysHandle};
use crate::drop_errors::DropErrors;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, lock};

/// What is open of other processes, by device and handle.
pub(crate) struct IpcRegistry {
    driver: Arc<dyn Driver>,
    captures: Arc<Captures>,
    errors: Arc<DropErrors>,
    open: Mutex<Open>,
}

type Key = (DeviceIndex, Vec<u8>);

#[derive(Debug, Default)]
struct Open {
    by_handle: HashMap<Key, Opened>,
    /// Physical memory whose release the driver refused.
    unreleased: Vec<PhysHandle>,
}

/// Open memory.
#[derive(Debug)]
struct Opened {
    base: DevicePtr,
    backing: Backing,
    /// How many [`IpcMemory`]s there are. At 0 it is to be closed.
    users: u64,
    /// Whether that was tried and refused: a part of it may be gone.
    is_half_closed: bool,
}

#[derive(Debug)]
enum Backing {
    Allocation,
    Pages(ExpandableSegment),
}

/// Memory of another process, open in this one (`getIpcDevPtr`). All who open one handle share it; it is closed when
/// the last ends, after all work of the device, and not while a capture is under way, whose device cannot be waited for.
#[must_use = "the memory is closed when the last of its users ends"]
pub struct IpcMemory {
    registry: Arc<IpcRegistry>,
    key: Key,
    base: DevicePtr,
}

impl CachingAllocator {
    /// Opens what another process shares by [`share_ipc_handle`](Self::share_ipc_handle), on the device that it is of.
    ///
    /// # Safety
    /// The other process keeps the memory until it is closed here, and both order what they do with it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for bytes that are no handle, and when there is no such device; what the driver
    /// reports, and then nothing is open.
    pub unsafe fn open_ipc_handle(&self, device: DeviceIndex, handle: &[u8]) -> Result<IpcMemory> {
        self.device(device)?;
        let shared = Shared::read(handle)?;
        let registry = &self.0.ipc;
        let key = (device, handle.to_vec());
        let mut open = lock(&registry.open);
        let open = &mut *open;
        let driver = &*registry.driver;
        match open.by_handle.get_mut(&key) {
            Some(opened) if !opened.is_half_closed => {
                opened.users += 1;
                return Ok(IpcMemory { registry: Arc::clone(registry), base: opened.base, key });
            }
            Some(half_closed) => {
                let _quiet = registry.without_capture(device)?;
                close(driver, device, half_closed, &mut open.unreleased)?;
                open.by_handle.remove(&key);
            }
            None => {}
        }
        let (base, backing) = match &shared {
            // SAFETY: the caller answers for the other process.
            Shared::Allocation(handle) => (unsafe { driver.ipc_open(device, handle) }?, Backing::Allocation),
            Shared::Pages { page, handles } => {
                check_page(driver, device, *page)?;
                let unreleased = &mut open.unreleased;
                let segment = ExpandableSegment::import(driver, device, *page, handles, unreleased)?;
                (DevicePtr(segment.base()), Backing::Pages(segment))
            }
        };
        open.by_handle.insert(key.clone(), Opened { base, backing, users: 1, is_half_closed: false });
        Ok(IpcMemory { registry: Arc::clone(registry), base, key })
    }

    /// How many handles of other processes are open.
    pub fn open_ipc_handles(&self) -> usize {
        lock(&self.0.ipc.open).by_handle.len()
    }
}

fn check_page(driver: &dyn Driver, device: DeviceIndex, page: u64) -> Result<()> {
    let unit = driver.granularity(device)?;
    if page.is_multiple_of(unit) {
        return Ok(());
    }
    let text =
        format!("open_ipc_handle: the handle's pages of {page} bytes are no whole units of {unit} bytes");
    Err(Error::new(ErrorKind::InvalidArgument, text))
}

impl IpcRegistry {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        Self {
            driver: Arc::clone(runtime.driver()),
            captures: Arc::clone(runtime.captures()),
            errors: Arc::clone(runtime.drop_errors()),
            open: Mutex::default(),
        }
    }

    fn without_capture(&self, device: DeviceIndex) -> Result<Quiet<'_>> {
        self.captures.quiet().ok_or_else(|| {
            let text =
                format!("open_ipc_handle: device {device} cannot be waited for while a capture is under way");
            Error::new(ErrorKind::Capture, text)
        })
    }

    /// Ends one use. What the driver does not let go is tried again when the next use begins or ends.
    fn end_use(self: &Arc<Self>, key: &Key) {
        if let Some(opened) = lock(&self.open).by_handle.get_mut(key) {
            opened.users -= 1;
        }
        let registry = Arc::clone(self);
        self.captures.when_over(move || registry.close_idle());
    }

    /// Closes what nobody uses.
    fn close_idle(&self) {
        let mut open = lock(&self.open);
        let open = &mut *open;
        for handle in std::mem::take(&mut open.unreleased) {
            release(&*self.driver, handle, &mut open.unreleased);
        }
        let idle: Vec<Key> = open
            .by_handle
            .iter()
            .filter(|(_, opened)| opened.users == 0)
            .map(|(key, _)| key.clone())
            .collect();
        for key in idle {
            let Some(opened) = open.by_handle.get_mut(&key) else { continue };
            match close(&*self.driver, key.0, opened, &mut open.unreleased) {
                Ok(()) => {
                    open.by_handle.remove(&key);
                }
                refused => {
                    opened.is_half_closed = true;
                    self.errors.note(refused);
                }
            }
        }
    }
}

/// Closes memory that nobody uses any more, once all work of the device is complete.
fn close(
    driver: &dyn Driver,
    device: DeviceIndex,
    opened: &mut Opened,
    unreleased: &mut Vec<PhysHandle>,
) -> std::result::Result<(), DriverError> {
    driver.device_synchronize(device)?;
    match &mut opened.backing {
        // SAFETY: the last user has ended, and what it had issued is complete.
        Backing::Allocation => unsafe { driver.ipc_close(opened.base) },
        Backing::Pages(segment) => {
            segment.unmap_all(driver, unreleased);
            segment.free(driver, unreleased)
        }
    }
}

impl IpcMemory {
    /// Where it begins.
    pub fn ptr(&self) -> DevicePtr {
        self.base
    }

    /// The device it is of.
    pub fn device(&self) -> DeviceIndex {
        self.key.0
    }

    /// An owner of it, whose address is `offset` bytes from the beginning: the [offset] of the handle.
    ///
    /// [offset]: super::ShareableHandle::offset
    ///
    /// # Panics
    /// When that is beyond the address space.
    pub fn into_data_ptr(self, offset: u64) -> DataPtr {
        let (device, address) = (Device::cuda(self.device()), self.base.offset(offset));
        let owner: *mut Self = Box::into_raw(Box::new(self));
        let address = std::ptr::without_provenance_mut(address.0 as usize);
        // SAFETY: the memory is open until its last user ends, which the owner is until `run` drops it, once.
        unsafe { DataPtr::new(address, owner.cast(), &DELETER, device) }
    }
}

static DELETER: DeleterEntry = DeleterEntry::new("cuda_ipc", run);

unsafe fn run(context: *mut c_void) {
    // SAFETY: `into_data_ptr` made the context from a box of this type, and a deleter runs once.
    drop(unsafe { Box::from_raw(context.cast::<IpcMemory>()) });
}

impl Drop for IpcMemory {
    fn drop(&mut self) {
        self.registry.end_use(&self.key);
    }
}

impl fmt::Debug for IpcMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpcMemory")
            .field("device", &self.device())
            .field("ptr", &self.base)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for IpcRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpcRegistry").finish_non_exhaustive()
    }
}
