//! Memory and events of other processes, and those that other processes may open.

use std::fs::File;
use std::sync::Arc;

use c10_cuda::driver::sim::SharedBytes;
use c10_cuda::driver::{DevicePtr, Driver, EventFlags, KernelMemory};

use super::virtual_memory::{FILE_DESCRIPTOR, Physical};
use super::{AllocationKind, Event, Machine, OnStream};
use crate::abi::layout::IpcBytes;
use crate::abi::{Code, Handle, Outcome};
use crate::ipc::{Completion, FileBytes, MemoryTicket, NamedFile, SharedEvent, physical_file, physical_of};

/// What is shared of an allocation.
#[derive(Debug)]
pub(crate) enum Share {
    /// It was exported: its ticket, and the file that its bytes lie in from then on.
    Exported(MemoryTicket, #[expect(dead_code, reason = "its end removes the name")] NamedFile),
    /// It is another process's, opened so many times.
    Opened(MemoryTicket, u32),
}

impl Machine {
    /// `cuIpcGetMemHandle`: memory of `cuMemAlloc`, by its first address.
    pub(crate) fn export_allocation(&mut self, ptr: u64) -> Outcome<IpcBytes> {
        let number = self.next_number();
        let found = self.memory.allocations.get_mut(&ptr).ok_or(Code::INVALID_VALUE)?;
        if found.kind != AllocationKind::Plain {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(Share::Exported(ticket, _)) = &found.share {
            return Ok(ticket.to_handle());
        }
        let device = self.contexts.get(found.context)?.device;
        let (ticket, file) = MemoryTicket::create(device.into(), found.bytes, number)?;
        let bytes: Arc<dyn SharedBytes> = Arc::new(ticket.open()?);
        self.sim.share_bytes(DevicePtr(ptr), bytes)?;
        found.share = Some(Share::Exported(ticket, file));
        Ok(ticket.to_handle())
    }

    /// `cuIpcOpenMemHandle`: opening again gives the same address, and has to be closed again.
    pub(crate) fn open_allocation(&mut self, handle: &IpcBytes) -> Outcome<u64> {
        let ticket = MemoryTicket::of_handle(handle)?;
        if ticket.process == std::process::id() {
            return Err(Code::INVALID_CONTEXT);
        }
        let (context, found) = self.current_context()?;
        let here = found.device;
        for (&at, allocation) in &mut self.memory.allocations {
            if let Some(Share::Opened(opened, times)) = &mut allocation.share
                && *opened == ticket
                && allocation.context == context
            {
                *times = times.checked_add(1).ok_or(Code::INVALID_VALUE)?;
                return Ok(at);
            }
        }
        let device = self.device(i32::try_from(ticket.device).map_err(|_| Code::INVALID_VALUE)?)?;
        let bytes: Arc<dyn SharedBytes> = Arc::new(ticket.open()?);
        if device != here {
            self.sim.enable_peer_access(here, device)?;
        }
        let at = self.sim.malloc_shared(device, ticket.bytes, bytes)?.0;
        self.note_allocation(at, (context, ticket.bytes), AllocationKind::Opened);
        if let Some(opened) = self.memory.allocations.get_mut(&at) {
            opened.share = Some(Share::Opened(ticket, 1));
        }
        Ok(at)
    }

    /// `cuIpcCloseMemHandle`.
    pub(crate) fn close_allocation(&mut self, ptr: u64) -> Outcome {
        let found = self.memory.allocations.get_mut(&ptr).ok_or(Code::INVALID_VALUE)?;
        match &mut found.share {
            Some(Share::Opened(_, 1)) => {}
            Some(Share::Opened(_, times)) => {
                *times -= 1;
                return Ok(());
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        self.free_promised(ptr)?;
        self.memory.allocations.remove(&ptr);
        Ok(())
    }

    /// `cuMemExportToShareableHandle`: a file that holds the memory's bytes from here on.
    pub(crate) fn export_physical(&mut self, handle: Handle) -> Outcome<Arc<File>> {
        let physical = self.held(handle)?;
        if physical.handle_types & FILE_DESCRIPTOR == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(file) = &physical.file {
            return Ok(Arc::clone(file));
        }
        let sim = physical.sim;
        let file = Arc::new(physical_file(sim.device.into(), sim.bytes)?);
        self.sim.share_physical(sim, in_file(&file)?)?;
        self.memory.physical.get_mut(handle)?.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// `cuMemImportFromShareableHandle`.
    pub(crate) fn import_physical(&mut self, file: File) -> Outcome<Handle> {
        let (device, bytes) = physical_of(&file)?;
        let device = self.device(i32::try_from(device).map_err(|_| Code::INVALID_VALUE)?)?;
        let file = Arc::new(file);
        let sim = self.sim.create_shared(device, bytes, in_file(&file)?)?;
        let (file, handle_types) = (Some(file), FILE_DESCRIPTOR);
        Ok(self.memory.physical.insert(Physical { sim, holds: 1, maps: 0, handle_types, file }))
    }

    /// `cuIpcGetEventHandle`.
    pub(crate) fn export_event(&mut self, event: Handle) -> Outcome<IpcBytes> {
        let number = self.next_number();
        let recorded_on = self.event(event)?.recorded_on;
        let found = self.events.get_mut(event)?;
        if found.flags & Event::INTERPROCESS == 0 {
            return Err(Code::INVALID_HANDLE);
        }
        if let Some(shared) = &found.shared {
            return shared.to_handle();
        }
        let shared = SharedEvent::export(number)?;
        let handle = shared.to_handle()?;
        found.shared = Some(shared);
        // What it stands for already is over before another process can ask.
        if let Some(stream) = recorded_on {
            self.sim.complete_stream(stream);
        }
        Ok(handle)
    }

    /// `cuIpcOpenEventHandle`.
    pub(crate) fn open_event(&mut self, handle: &IpcBytes) -> Outcome<Handle> {
        let (context, found) = self.current_context()?;
        let shared = SharedEvent::of_handle(handle)?;
        let flags = EventFlags { interprocess: true, ..EventFlags::default() };
        let sim = self.sim.event_create(found.device, flags)?;
        let flags = Event::INTERPROCESS | Event::DISABLE_TIMING;
        Ok(self.events.insert(Event { context, sim, flags, recorded_on: None, shared: Some(shared) }))
    }

    /// An event has been recorded: others are told when its work is over.
    pub(super) fn tell_when_over(&mut self, event: Handle, on: OnStream, in_graph: bool) -> Outcome {
        let Some(shared) = self.events.get_mut(event)?.shared.as_mut() else { return Ok(()) };
        let completion: Completion = if in_graph { shared.record_in_graph() } else { shared.record()? };
        let body = move |_: &mut dyn KernelMemory| completion.tell();
        self.launch_promised(on.sim, "event of processes", Vec::new(), Box::new(body))
    }
}

/// A file as memory's bytes.
fn in_file(file: &File) -> Outcome<Arc<dyn SharedBytes>> {
    let file = file.try_clone().map_err(|_| Code::OPERATING_SYSTEM)?;
    Ok(Arc::new(FileBytes::new(file)))
}
