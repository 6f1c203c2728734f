//! Virtual memory: reserve, create, map, give access, unmap, release. Everything counts in whole units of 2 MiB.

use std::collections::BTreeMap;

use c10_core::DeviceIndex;

use super::bytes::Bytes;
use super::process::ProcessId;
use super::slab::Id;
use super::space::GRANULARITY;
use super::state::State;
use crate::driver::{DevicePtr, PhysHandle, Status, VaRange};

/// A reserved range.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) device: DeviceIndex,
    pub(super) process: ProcessId,
    pub(super) bytes: u64,
}

/// Physical memory behind addresses.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) bytes: u64,
    pub(super) physical: Id,
    /// The devices that may use it, by bit.
    pub(super) access: u32,
    /// Tells it from what was mapped there before.
    pub(super) birth: u64,
    pub(super) process: ProcessId,
}

/// Physical memory. It lives until every process that has a handle has released it and it is mapped nowhere.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) device: DeviceIndex,
    pub(super) bytes: u64,
    maps: u32,
    /// How many handles each process has.
    pub(super) holders: BTreeMap<ProcessId, u32>,
    pub(super) contents: Bytes,
    /// Whether it takes memory of another machine's device, not of this one's.
    pub(super) is_foreign: bool,
}

impl Physical {
    /// Memory that a process has one handle of.
    pub(super) fn new(device: DeviceIndex, process: ProcessId, bytes: u64) -> Self {
        let holders = BTreeMap::from([(process, 1)]);
        Self { device, bytes, maps: 0, holders, contents: Bytes::default(), is_foreign: false }
    }

    /// One handle of a process is gone.
    fn released_by(&mut self, process: ProcessId) {
        if let Some(handles) = self.holders.get_mut(&process) {
            *handles -= 1;
            if *handles == 0 {
                self.holders.remove(&process);
            }
        }
    }
}

pub(super) fn check_units(bytes: u64) -> Result<(), Status> {
    if bytes != 0 && bytes.is_multiple_of(GRANULARITY) { Ok(()) } else { Err(Status::InvalidValue) }
}

impl State {
    pub(super) fn reserve(&mut self, device: DeviceIndex, bytes: u64) -> Result<VaRange, Status> {
        let state = self.device(device)?;
        check_units(bytes)?;
        let scripted = state.va_space.scripted();
        let base = match scripted {
            Some(at) if at.0.is_multiple_of(GRANULARITY) => self.check_scripted(at, bytes)?,
            Some(_) => return Err(Status::InvalidValue),
            None => state.va_space.find(bytes).ok_or(Status::OutOfMemory)?,
        };
        self.take_addresses(base, bytes);
        if scripted.is_some() {
            self.device_mut(device)?.va_space.scripted_taken();
        }
        self.memory.reservations.insert(base, Reservation { device, process: self.process, bytes });
        Ok(VaRange { base: DevicePtr(base), bytes })
    }

    pub(super) fn free_range(&mut self, range: VaRange) -> Result<(), Status> {
        let (base, bytes) = (range.base.0, range.bytes);
        let exact = self
            .memory
            .reservations
            .get(&base)
            .is_some_and(|r| (r.bytes, r.process) == (bytes, self.process));
        if !exact || self.memory.mappings.range(base..base + bytes).next().is_some() {
            return Err(Status::InvalidValue);
        }
        self.memory.reservations.remove(&base);
        self.give_addresses(base, bytes);
        self.watch(|races| races.range_freed(base, bytes));
        Ok(())
    }

    pub(super) fn create(&mut self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle, Status> {
        let state = self.device(device)?;
        check_units(bytes)?;
        if bytes > state.total - state.in_use {
            return Err(Status::OutOfMemory);
        }
        let physical = Physical::new(device, self.process, bytes);
        let id = self.memory.physical.insert(physical).ok_or(Status::OutOfMemory)?;
        self.device_mut(device)?.in_use += bytes;
        Ok(PhysHandle { device, raw: id.raw(), bytes })
    }

    /// The memory of a handle that the process has and has not released.
    pub(super) fn physical_id(&self, handle: PhysHandle) -> Result<Id, Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        match self.memory.physical.get(id) {
            Some(p)
                if (p.device, p.bytes) == (handle.device, handle.bytes)
                    && p.holders.contains_key(&self.process) =>
            {
                Ok(id)
            }
            _ => Err(Status::InvalidHandle),
        }
    }

    pub(super) fn release(&mut self, handle: PhysHandle) -> Result<(), Status> {
        let id = self.physical_id(handle)?;
        if let Some(physical) = self.memory.physical.get_mut(id) {
            physical.released_by(self.process);
        }
        self.drop_physical_if_unused(id)
    }

    fn drop_physical_if_unused(&mut self, id: Id) -> Result<(), Status> {
        let unused = self.memory.physical.get(id).is_some_and(|p| p.holders.is_empty() && p.maps == 0);
        if unused && let Some(physical) = self.memory.physical.remove(id) {
            let taken = if physical.is_foreign { 0 } else { physical.bytes };
            self.device_mut(physical.device)?.in_use -= taken;
            self.watch(|races| races.physical_gone(id));
        }
        Ok(())
    }

    pub(super) fn map(&mut self, at: DevicePtr, handle: PhysHandle) -> Result<(), Status> {
        let physical = self.physical_id(handle)?;
        let bytes = handle.bytes;
        let end = at.0.checked_add(bytes).filter(|_| at.0.is_multiple_of(GRANULARITY));
        let end = end.ok_or(Status::InvalidValue)?;
        let memory = &mut self.memory;
        let reserved = memory.reservations.range(..=at.0).next_back();
        if reserved.is_none_or(|(&base, r)| end > base + r.bytes || r.process != self.process) {
            return Err(Status::InvalidValue);
        }
        let before = memory.mappings.range(..end).next_back();
        if before.is_some_and(|(&base, m)| base + m.bytes > at.0) {
            return Err(Status::AlreadyMapped);
        }
        let memory_of = memory.physical.get_mut(physical).ok_or(Status::InvalidHandle)?;
        memory_of.maps = memory_of.maps.checked_add(1).ok_or(Status::InvalidValue)?;
        memory.births += 1;
        let mapping = Mapping { bytes, physical, access: 0, birth: memory.births, process: self.process };
        memory.mappings.insert(at.0, mapping);
        self.watch(|races| races.mapped(at.0, bytes));
        Ok(())
    }

    /// The mappings that cover a range exactly, by first address.
    fn covering(&self, at: DevicePtr, bytes: u64) -> Result<Vec<u64>, Status> {
        let end = at.0.checked_add(bytes).filter(|_| bytes != 0).ok_or(Status::InvalidValue)?;
        let mut reached = at.0;
        let mut found = Vec::new();
        for (&base, mapping) in self.memory.mappings.range(at.0..end) {
            if base != reached || mapping.process != self.process {
                break;
            }
            found.push(base);
            reached += mapping.bytes;
        }
        if reached == end { Ok(found) } else { Err(Status::InvalidValue) }
    }

    pub(super) fn set_access(
        &mut self,
        at: DevicePtr,
        bytes: u64,
        devices: &[DeviceIndex],
    ) -> Result<(), Status> {
        let mappings = self.covering(at, bytes)?;
        let mut access = 0;
        for &device in devices {
            self.device(device)?;
            access |= 1u32 << device;
        }
        if access == 0 {
            return Err(Status::InvalidValue);
        }
        if !self.peers_possible && !self.all_on(&mappings, access) {
            return Err(Status::PeerAccessUnsupported);
        }
        for base in mappings {
            if let Some(mapping) = self.memory.mappings.get_mut(&base) {
                mapping.access |= access;
            }
        }
        Ok(())
    }

    /// Whether the physical memory of all mappings is on the one device that `access` names.
    fn all_on(&self, mappings: &[u64], access: u32) -> bool {
        mappings.iter().all(|base| {
            let physical = self.memory.mappings.get(base).and_then(|m| self.memory.physical.get(m.physical));
            physical.is_some_and(|p| 1 << p.device == access)
        })
    }

    pub(super) fn unmap(&mut self, at: DevicePtr, bytes: u64) -> Result<(), Status> {
        for base in self.covering(at, bytes)? {
            let Some(mapping) = self.memory.mappings.remove(&base) else { continue };
            self.watch(|races| races.unmapped(base, mapping.physical, mapping.bytes));
            if let Some(physical) = self.memory.physical.get_mut(mapping.physical) {
                physical.maps -= 1;
            }
            self.drop_physical_if_unused(mapping.physical)?;
        }
        Ok(())
    }
}
