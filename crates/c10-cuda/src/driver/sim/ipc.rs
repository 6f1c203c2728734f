//! Memory of other processes: allocations that are exported and opened, physical memory that is exported and
//! imported. Events of other processes take the same handles ([`event`](super::event)).
//!
//! A handle is 64 bytes that any process may hold; what it stands for is looked up when it is used.

use c10_core::DeviceIndex;

use super::access::{Owner, Piece, Toucher};
use super::memory::Memory;
use super::process::ProcessId;
use super::report::AccessFault;
use super::slab::Id;
use super::state::State;
use crate::driver::{DevicePtr, IpcHandle, PhysHandle, Status};

/// The first bytes of a handle: what it stands for.
const ALLOCATION: [u8; 8] = *b"sim-mem\0";
const PHYSICAL: [u8; 8] = *b"sim-phys";
pub(super) const EVENT: [u8; 8] = *b"sim-evnt";

/// Another process's allocation, at an address of this one.
#[derive(Debug)]
pub(super) struct Opened {
    process: ProcessId,
    /// The allocation, and which of those that stood there.
    of: u64,
    of_birth: u64,
    bytes: u64,
    pub(super) extent: u64,
    birth: u64,
}

pub(super) fn handle(kind: [u8; 8], words: [u64; 2]) -> IpcHandle {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&kind);
    bytes[8..16].copy_from_slice(&words[0].to_le_bytes());
    bytes[16..24].copy_from_slice(&words[1].to_le_bytes());
    IpcHandle(bytes)
}

/// The words of a handle, if it is of that kind.
pub(super) fn words(handle: &IpcHandle, kind: [u8; 8]) -> Result<[u64; 2], Status> {
    let (head, rest) = handle.0.split_at(8);
    if head != kind {
        return Err(Status::InvalidValue);
    }
    let word = |at: usize| rest[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Ok([word(0), word(8)])
}

impl State {
    pub(super) fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle, Status> {
        let allocation = self.memory.allocations.get(&ptr.0).filter(|a| a.process == self.process);
        // Memory of a pool is exported by its pool.
        let allocation = allocation.filter(|a| a.pooled.is_none()).ok_or(Status::InvalidValue)?;
        Ok(handle(ALLOCATION, [ptr.0, allocation.birth]))
    }

    pub(super) fn ipc_open(&mut self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr, Status> {
        let state = self.device(device)?;
        let [of, of_birth] = words(handle, ALLOCATION)?;
        let exported = self.memory.allocations.get(&of).filter(|a| a.birth == of_birth);
        let exported = exported.ok_or(Status::InvalidValue)?;
        if exported.process == self.process || exported.device != device {
            return Err(Status::InvalidHandle);
        }
        let is_it = |o: &Opened| (o.process, o.of, o.of_birth) == (self.process, of, of_birth);
        if self.memory.opened.values().any(is_it) {
            return Err(Status::AlreadyMapped);
        }
        let (bytes, extent) = (exported.bytes, exported.extent);
        let at = state.malloc_space.find(extent).ok_or(Status::OutOfMemory)?;
        self.take_addresses(at, extent);
        self.memory.births += 1;
        let birth = self.memory.births;
        self.memory.opened.insert(at, Opened { process: self.process, of, of_birth, bytes, extent, birth });
        Ok(DevicePtr(at))
    }

    pub(super) fn ipc_close(&mut self, ptr: DevicePtr) -> Result<(), Status> {
        match self.memory.opened.get(&ptr.0) {
            Some(opened) if opened.process == self.process => {}
            _ => return Err(Status::InvalidValue),
        }
        if let Some(opened) = self.memory.opened.remove(&ptr.0) {
            self.give_addresses(ptr.0, opened.extent);
        }
        Ok(())
    }

    pub(super) fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle, Status> {
        self.physical_id(memory)?;
        Ok(handle(PHYSICAL, [memory.raw, u64::from(memory.device)]))
    }

    pub(super) fn import_memory(
        &mut self,
        device: DeviceIndex,
        handle: &IpcHandle,
    ) -> Result<PhysHandle, Status> {
        self.device(device)?;
        let [raw, on] = words(handle, PHYSICAL)?;
        let id = Id::from_raw(raw).ok_or(Status::InvalidHandle)?;
        let process = self.process;
        let physical = self.memory.physical.get_mut(id).ok_or(Status::InvalidHandle)?;
        if physical.device != device || u64::from(physical.device) != on {
            return Err(Status::InvalidHandle);
        }
        let handles = physical.holders.entry(process).or_insert(0);
        *handles = handles.checked_add(1).ok_or(Status::InvalidValue)?;
        Ok(PhysHandle { device, raw, bytes: physical.bytes })
    }
}

impl Memory {
    /// What lies behind an address that was opened, if it was.
    pub(super) fn opened_at(&self, at: u64, end: u64, who: &Toucher) -> Result<Option<Piece>, AccessFault> {
        let opened = self.opened.range(..=at).next_back();
        let Some((&base, opened)) = opened.filter(|(base, opened)| at - **base < opened.extent) else {
            return Ok(None);
        };
        let origin = self.allocations.get(&opened.of).filter(|a| a.birth == opened.of_birth);
        // Whoever exported it has freed it, or it is another process's opening.
        let origin = origin.filter(|_| who.is_of(opened.process)).ok_or(AccessFault::NotLive)?;
        if end - base > opened.bytes {
            return Err(AccessFault::NotLive);
        }
        who.may_touch(opened.birth, who.by_copy || who.reach & (1 << origin.device) != 0)?;
        let owner = Owner::Allocation(opened.of);
        Ok(Some(Piece { owner, offset: at - base, bytes: end - at }))
    }
}
