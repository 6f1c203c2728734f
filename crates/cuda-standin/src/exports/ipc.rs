#![expect(unsafe_code, reason = "takes file descriptors from C programs, and gives them out")]
//! Memory and events of other processes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};

use crate::abi::layout::IpcBytes;
use crate::abi::{Code, Handle, Out, OutAny, Outcome};
use crate::entry::exports;
use crate::machine::FILE_DESCRIPTOR;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only way there is.
const LAZY_PEER_ACCESS: u32 = 1;

/// A descriptor of the program's, which stays the program's, as a file.
fn file_of(descriptor: u64) -> Outcome<File> {
    let raw = RawFd::try_from(descriptor as i64).ok().filter(|&raw| raw >= 0).ok_or(Code::INVALID_VALUE)?;
    // SAFETY: it is not -1; the program keeps it open through this call, as CUDA asks. One that is not open cannot be
    // cloned, and nothing else is done with it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(raw) };
    descriptor.try_clone_to_owned().map(File::from).map_err(|_| Code::INVALID_VALUE)
}

exports! {
    Context fn cuIpcGetMemHandle(handle: Out<IpcBytes>, ptr: u64) |machine| {
        handle.check()?;
        handle.put(machine.export_allocation(ptr)?)
    }

    Context fn cuIpcOpenMemHandle_v2(ptr: Out<u64>, handle: IpcBytes, flags: u32) |machine| {
        ptr.check()?;
        if flags != LAZY_PEER_ACCESS {
            return Err(Code::INVALID_VALUE);
        }
        ptr.put(machine.open_allocation(&handle)?)
    }

    GiveBack fn cuIpcCloseMemHandle(ptr: u64) |machine| { machine.close_allocation(ptr) }

    Context fn cuIpcGetEventHandle(handle: Out<IpcBytes>, event: Handle) |machine| {
        handle.check()?;
        handle.put(machine.export_event(event)?)
    }

    Context fn cuIpcOpenEventHandle(event: Out<Handle>, handle: IpcBytes) |machine| {
        event.check()?;
        event.put(machine.open_event(&handle)?)
    }

    Init fn cuMemExportToShareableHandle(shareable: OutAny, handle: Handle, kind: u32, flags: u64) |machine| {
        shareable.of::<RawFd>().check()?;
        if kind != FILE_DESCRIPTOR || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let file = machine.export_physical(handle)?;
        let owned = file.as_fd().try_clone_to_owned().map_err(|_| Code::OPERATING_SYSTEM)?;
        shareable.of::<RawFd>().put(owned.into_raw_fd())
    }

    Init fn cuMemImportFromShareableHandle(handle: Out<Handle>, descriptor: u64, kind: u32) |machine| {
        handle.check()?;
        if kind != FILE_DESCRIPTOR {
            return Err(Code::INVALID_VALUE);
        }
        handle.put(machine.import_physical(file_of(descriptor)?)?)
    }
}
