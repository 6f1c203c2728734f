#![expect(unsafe_code, reason = "exports to other processes, and opens what they export")]
//! What processes share: allocations and events by CUDA's own handles, physical memory by a file descriptor.
//!
//! A descriptor means something in one process alone. The handle says which process has it and which it is there, and
//! whoever imports takes a copy of it out of that process: Linux allows that among processes that may trace each
//! other. The exporting process keeps the descriptor until it has released the memory.

use std::ffi::c_char;

use c10_core::DeviceIndex;

use super::abi::{CUevent, CUipcEventHandle, CUipcMemHandle};
use super::books::same;
use super::driver::RealDriver;
use super::event::Event;
use super::status::check;
use super::{abi, memory};
use crate::driver::{DevicePtr, EventHandle, IpcHandle, Status};
use crate::sync::lock;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
const LAZY_ENABLE_PEER_ACCESS: u32 = 1;

fn to_bytes(reserved: [c_char; 64]) -> IpcHandle {
    IpcHandle(reserved.map(|byte| byte.to_ne_bytes()[0]))
}

fn to_chars(handle: &IpcHandle) -> [c_char; 64] {
    handle.0.map(|byte| c_char::from_ne_bytes([byte]))
}

impl RealDriver {
    pub(super) fn export_allocation(&self, ptr: DevicePtr) -> Result<IpcHandle, Status> {
        let device = self.device_of_allocation(ptr)?;
        self.on(device, |symbols, _| {
            let mut handle = CUipcMemHandle { reserved: [0; 64] };
            // SAFETY: there is room for one handle; CUDA checks the address.
            check(unsafe { (symbols.ipc_get_mem_handle)(&mut handle, ptr.0) })?;
            Ok(to_bytes(handle.reserved))
        })
    }

    /// # Safety
    /// As [`Driver::ipc_open`](crate::driver::Driver::ipc_open).
    pub(super) unsafe fn open_allocation(
        &self,
        device: DeviceIndex,
        handle: &IpcHandle,
    ) -> Result<DevicePtr, Status> {
        let handle = CUipcMemHandle { reserved: to_chars(handle) };
        self.on(device, |symbols, _| {
            let mut ptr = 0;
            // SAFETY: there is room for one address; CUDA checks the handle.
            check(unsafe { (symbols.ipc_open_mem_handle)(&mut ptr, handle, LAZY_ENABLE_PEER_ACCESS) })?;
            let mut book = lock(&self.memory);
            if book.opened.contains_key(&ptr) {
                // Drivers that count openings are told that this was none.
                // SAFETY: the allocation is open, and is so once more than the book says.
                check(unsafe { (symbols.ipc_close_mem_handle)(ptr) })?;
                return Err(Status::AlreadyMapped);
            }
            book.opened.insert(ptr, device);
            Ok(DevicePtr(ptr))
        })
    }

    /// The device on which an allocation of another process was opened.
    pub(super) fn device_of_opened(&self, ptr: DevicePtr) -> Option<DeviceIndex> {
        lock(&self.memory).opened.get(&ptr.0).copied()
    }

    /// # Safety
    /// As [`Driver::ipc_close`](crate::driver::Driver::ipc_close).
    pub(super) unsafe fn close_allocation(&self, ptr: DevicePtr) -> Result<(), Status> {
        let device = lock(&self.memory).opened.remove(&ptr.0).ok_or(Status::InvalidValue)?;
        // SAFETY: it is open, and the caller says that nothing uses it.
        let closed = self.on(device, |symbols, _| check(unsafe { (symbols.ipc_close_mem_handle)(ptr.0) }));
        if closed.is_err() {
            lock(&self.memory).opened.insert(ptr.0, device);
        }
        closed
    }

    pub(super) fn export_event(&self, event: EventHandle) -> Result<IpcHandle, Status> {
        self.events.with(event.raw, |known| {
            same(known.device, event.device)?;
            if !known.exportable {
                return Err(Status::InvalidValue);
            }
            self.on(event.device, |symbols, _| {
                let mut handle = CUipcEventHandle { reserved: [0; 64] };
                // SAFETY: the event is live, and there is room for one handle.
                check(unsafe { (symbols.ipc_get_event_handle)(&mut handle, abi::pointer(event.raw)) })?;
                Ok(to_bytes(handle.reserved))
            })
        })
    }

    pub(super) fn open_event(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle, Status> {
        let handle = CUipcEventHandle { reserved: to_chars(handle) };
        let raw = self.on(device, |symbols, _| {
            let mut event: CUevent = std::ptr::null_mut();
            // SAFETY: there is room for one event; CUDA checks the handle.
            check(unsafe { (symbols.ipc_open_event_handle)(&mut event, handle) })?;
            Ok(abi::number(event))
        })?;
        self.events.insert(raw, Event { device, exportable: false });
        Ok(EventHandle { device, raw })
    }
}

/// The file of exported physical memory.
#[cfg(target_os = "linux")]
pub(super) type ExportedFile = std::os::fd::OwnedFd;
/// Nothing is exported on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) type ExportedFile = std::convert::Infallible;

/// What a handle of physical memory says.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "files are Linux's"))]
struct Descriptor {
    process: u32,
    file: u32,
    bytes: u64,
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "files are Linux's"))]
impl Descriptor {
    /// The first bytes of such a handle.
    const KIND: [u8; 8] = *b"tp-fd\0\0\x01";

    fn encode(&self) -> IpcHandle {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&Self::KIND);
        bytes[8..12].copy_from_slice(&self.process.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        IpcHandle(bytes)
    }

    fn decode(handle: &IpcHandle) -> Option<Self> {
        let rest = handle.0.strip_prefix(&Self::KIND)?;
        let (process, rest) = rest.split_first_chunk()?;
        let (file, rest) = rest.split_first_chunk()?;
        let (bytes, _) = rest.split_first_chunk()?;
        Some(Self {
            process: u32::from_le_bytes(*process),
            file: u32::from_le_bytes(*file),
            bytes: u64::from_le_bytes(*bytes),
        })
    }
}

/// A failure, with what there is to say beyond its status.
pub(super) type Detailed = (Status, Option<&'static str>);

#[cfg(not(target_os = "linux"))]
mod files {
    use super::*;
    use crate::driver::PhysHandle;

    const LINUX_ALONE: Detailed = (Status::NotSupported, Some("file descriptors are shared on Linux alone"));

    impl RealDriver {
        pub(in super::super) fn export_physical(&self, _: PhysHandle) -> Result<IpcHandle, Detailed> {
            Err(LINUX_ALONE)
        }

        pub(in super::super) fn import_physical(
            &self,
            _: DeviceIndex,
            _: &IpcHandle,
        ) -> Result<PhysHandle, Detailed> {
            Err(LINUX_ALONE)
        }
    }
}

#[cfg(target_os = "linux")]
mod files {
    use std::ffi::{c_int, c_void};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr;

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    use super::super::abi::{MemAllocationProp, MemLocation, POSIX_FILE_DESCRIPTOR};
    use super::super::symbols::Symbols;
    use super::*;
    use crate::driver::PhysHandle;

    impl RealDriver {
        pub(in super::super) fn export_physical(&self, memory: PhysHandle) -> Result<IpcHandle, Detailed> {
            let mut book = lock(&self.virtual_memory);
            let known = book.physical(memory).map_err(plain)?;
            if self.handle_types(memory.device).map_err(plain)? == 0 {
                return Err((Status::NotSupported, Some("the device exports no memory by file descriptor")));
            }
            let file = match &known.exported {
                Some(file) => file,
                None => {
                    let file = self.on(memory.device, |s, _| descriptor_of(s, memory)).map_err(plain)?;
                    known.exported.insert(file)
                }
            };
            let file = u32::try_from(file.as_raw_fd()).map_err(|_| plain(Status::InvalidHandle))?;
            Ok(Descriptor { process: std::process::id(), file, bytes: memory.bytes }.encode())
        }

        pub(in super::super) fn import_physical(
            &self,
            device: DeviceIndex,
            handle: &IpcHandle,
        ) -> Result<PhysHandle, Detailed> {
            let unit = self.granularity_of(device).map_err(plain)?;
            let descriptor = Descriptor::decode(handle).ok_or(plain(Status::InvalidValue))?;
            let Descriptor { bytes, .. } = descriptor;
            memory::length(bytes).map_err(|_| plain(Status::InvalidValue))?;
            if !bytes.is_multiple_of(unit) {
                return Err(plain(Status::InvalidValue));
            }
            let file = take(&descriptor)?;
            let imported = self.on(device, |symbols, known| {
                let at = ptr::without_provenance_mut::<c_void>(file.as_raw_fd() as usize);
                let mut raw = 0;
                // SAFETY: there is room for one handle; the file is open, and CUDA checks that it is such a one.
                check(unsafe { (symbols.mem_import)(&mut raw, at, POSIX_FILE_DESCRIPTOR) })?;
                // The devices of another process may be numbered in another way.
                let location = location_of(symbols, raw);
                let memory = PhysHandle { device, raw, bytes };
                if location == Ok(MemLocation::device(known.ordinal)) && self.note_physical(memory) {
                    return Ok(memory);
                }
                // SAFETY: the handle was just made, and nobody else has it.
                check(unsafe { (symbols.mem_release)(raw) })?;
                Err(location.err().unwrap_or(Status::InvalidHandle))
            });
            imported.map_err(plain)
        }
    }

    const fn plain(status: Status) -> Detailed {
        (status, None)
    }

    /// The file that stands for physical memory; the programs that this one starts do not get it.
    fn descriptor_of(symbols: &Symbols, memory: PhysHandle) -> Result<OwnedFd, Status> {
        let mut file: c_int = -1;
        let room = (&raw mut file).cast::<c_void>();
        // SAFETY: the handle is live, and there is room for one descriptor.
        check(unsafe { (symbols.mem_export)(room, memory.raw, POSIX_FILE_DESCRIPTOR, 0) })?;
        if file < 0 {
            return Err(Status::InvalidHandle);
        }
        // SAFETY: the descriptor was just made for this caller, and nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).map_err(|_| Status::InvalidHandle)?;
        Ok(file)
    }

    fn location_of(symbols: &Symbols, raw: u64) -> Result<MemLocation, Status> {
        let mut prop = MemAllocationProp::on(-1, 0);
        // SAFETY: the handle is live, and there is room for its properties.
        check(unsafe { (symbols.mem_get_allocation_properties)(&mut prop, raw) })?;
        Ok(prop.location)
    }

    /// A copy of the descriptor that another process, or this one, has.
    fn take(descriptor: &Descriptor) -> Result<OwnedFd, Detailed> {
        let invalid = plain(Status::InvalidHandle);
        let process = i32::try_from(descriptor.process).ok().and_then(Pid::from_raw).ok_or(invalid)?;
        let file = i32::try_from(descriptor.file).map_err(|_| invalid)?;
        let process = pidfd_open(process, PidfdFlags::empty()).map_err(|error| match error {
            Errno::NOSYS => (Status::NotSupported, Some("the kernel has no pidfd_open: Linux 5.3 has")),
            Errno::SRCH => (Status::InvalidHandle, Some("the process that exported the memory has ended")),
            Errno::PERM | Errno::ACCESS => {
                (Status::NotPermitted, Some("pidfd_open is forbidden here, as by a container's filter"))
            }
            _ => (Status::InvalidHandle, Some("pidfd_open failed")),
        })?;
        pidfd_getfd(process, file, PidfdGetfdFlags::empty()).map_err(|error| match error {
            Errno::NOSYS => (Status::NotSupported, Some("the kernel has no pidfd_getfd: Linux 5.6 has")),
            Errno::SRCH => (Status::InvalidHandle, Some("the process that exported the memory has ended")),
            Errno::BADF => (Status::InvalidHandle, Some("the process that exported the memory has released it")),
            Errno::PERM | Errno::ACCESS => (
                Status::NotPermitted,
                Some("pidfd_getfd needs the right to trace the exporting process (see kernel.yama.ptrace_scope)"),
            ),
            _ => (Status::InvalidHandle, Some("pidfd_getfd failed")),
        })
    }
}
