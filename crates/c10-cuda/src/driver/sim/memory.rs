//! Memory that `malloc` gives: which ranges are live, and how much of a device is in use.

use std::collections::{BTreeMap, BTreeSet};

use c10_core::DeviceIndex;

use super::bytes::Bytes;
use super::config::MAX_DEVICES;
use super::graph_memory::GraphRange;
use super::ipc::Opened;
use super::mem_pool::Pooled;
use super::process::ProcessId;
use super::slab::Slab;
use super::space::round_up;
use super::state::State;
use super::vmm::{Mapping, Physical, Reservation};
use crate::driver::{DevicePtr, MemoryInfo, Status};

/// A range that `malloc` or `malloc_async` gave.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) device: DeviceIndex,
    pub(super) process: ProcessId,
    /// What was asked for.
    pub(super) bytes: u64,
    /// What it takes of the addresses: whole units where the simulator chose the place.
    pub(super) extent: u64,
    /// What it takes of the device's memory.
    pub(super) capacity: u64,
    /// Tells it from what lived there before.
    pub(super) birth: u64,
    pub(super) contents: Bytes,
    /// What a range of a pool has beside.
    pub(super) pooled: Option<Box<Pooled>>,
}

impl Allocation {
    /// A range of whole units.
    pub(super) fn new(
        (device, process): (DeviceIndex, ProcessId),
        bytes: u64,
        extent: u64,
        birth: u64,
        pooled: Option<Box<Pooled>>,
    ) -> Self {
        Self { device, process, bytes, extent, capacity: extent, birth, contents: Bytes::default(), pooled }
    }
}

/// What lives at which address. No two allocations or reservations overlap, on any device; each mapping lies in
/// one reservation.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) allocations: BTreeMap<u64, Allocation>,
    /// Allocations of other processes, by the address that each has in the process that opened it.
    pub(super) opened: BTreeMap<u64, Opened>,
    pub(super) reservations: BTreeMap<u64, Reservation>,
    pub(super) mappings: BTreeMap<u64, Mapping>,
    pub(super) physical: Slab<Physical>,
    /// What `malloc_async` gave graphs.
    pub(super) graph_ranges: BTreeMap<u64, GraphRange>,
    /// Those that their own captures have freed, by graph, length and address.
    pub(super) graph_freed: BTreeSet<(u64, u64, u64)>,
    /// Graphs that are gone and have such ranges still.
    pub(super) graphs_gone: BTreeSet<u64>,
    /// How many allocations and mappings have come to life.
    pub(super) births: u64,
    /// The devices that may reach the memory of each device's pool, by bit, beside that device.
    pub(super) pool_access: [u32; MAX_DEVICES],
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self {
            allocations: BTreeMap::new(),
            opened: BTreeMap::new(),
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            physical: Slab::new(),
            graph_ranges: BTreeMap::new(),
            graph_freed: BTreeSet::new(),
            graphs_gone: BTreeSet::new(),
            births: 0,
            pool_access: [0; MAX_DEVICES],
        }
    }

    /// The allocation or reservation that an address lies in: its first address and its device.
    pub(super) fn range_at(&self, at: u64) -> Option<(u64, DeviceIndex)> {
        let allocation = self.allocations.range(..=at).next_back();
        let reservation = self.reservations.range(..=at).next_back();
        allocation
            .and_then(|(&base, a)| (at - base < a.extent).then_some((base, a.device)))
            .or_else(|| reservation.and_then(|(&base, r)| (at - base < r.bytes).then_some((base, r.device))))
    }

    /// The device whose memory or reservation an address lies in.
    pub(super) fn device_at(&self, at: u64) -> Option<DeviceIndex> {
        self.range_at(at).map(|(_, device)| device)
    }

    /// Whether any allocation or reservation touches `[at, at + bytes)`.
    fn is_taken(&self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        self.allocations.range(..end).next_back().is_some_and(|(&base, a)| base + a.extent > at)
            || self.reservations.range(..end).next_back().is_some_and(|(&base, r)| base + r.bytes > at)
            || self.graph_ranges.range(..end).next_back().is_some_and(|(&base, r)| base + r.extent > at)
            || self.opened.range(..end).next_back().is_some_and(|(&base, o)| base + o.extent > at)
    }
}

impl State {
    pub(super) fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo, Status> {
        let device = self.device(device)?;
        Ok(MemoryInfo { free: device.total - device.in_use, total: device.total })
    }

    pub(super) fn malloc(&mut self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr, Status> {
        self.device(device)?;
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        self.forbid_in_capture()?;
        let state = self.device(device)?;
        let capacity = round_up(bytes).ok_or(Status::OutOfMemory)?;
        if capacity > state.total - state.in_use {
            return Err(Status::OutOfMemory);
        }
        let scripted = state.malloc_space.scripted();
        let (at, extent) = match scripted {
            Some(at) => (self.check_scripted(at, bytes)?, bytes),
            None => (state.malloc_space.find(capacity).ok_or(Status::OutOfMemory)?, capacity),
        };
        self.take_addresses(at, extent);
        let state = self.device_mut(device)?;
        state.in_use += capacity;
        if scripted.is_some() {
            state.malloc_space.scripted_taken();
        }
        self.memory.births += 1;
        let birth = self.memory.births;
        let allocation =
            Allocation { extent, ..Allocation::new((device, self.process), bytes, capacity, birth, None) };
        self.memory.allocations.insert(at, allocation);
        self.watch(|races| races.allocated(at, bytes));
        Ok(DevicePtr(at))
    }

    /// Frees a range and gives its length. Where that does not wait, work that is under way goes on, and what of it
    /// uses the range will fault.
    pub(super) fn free(&mut self, ptr: DevicePtr) -> Result<u64, Status> {
        let own =
            |allocation: &&Allocation| allocation.pooled.is_none() && allocation.process == self.process;
        let plain = self.memory.allocations.get(&ptr.0).filter(own);
        let device = plain.ok_or(Status::InvalidValue)?.device;
        self.forbid_in_capture()?;
        if self.free_waits {
            self.finish_device(device);
        }
        let allocation = self.memory.allocations.remove(&ptr.0).ok_or(Status::InvalidValue)?;
        self.watch(|races| races.freed(device, ptr.0, allocation.bytes, allocation.extent));
        self.give_addresses(ptr.0, allocation.extent);
        self.device_mut(allocation.device)?.in_use -= allocation.capacity;
        Ok(allocation.bytes)
    }

    /// Whether a range can lie where a script puts it.
    pub(super) fn check_scripted(&self, at: DevicePtr, bytes: u64) -> Result<u64, Status> {
        let fits = !at.is_null() && at.0.checked_add(bytes).is_some() && !self.memory.is_taken(at.0, bytes);
        if fits { Ok(at.0) } else { Err(Status::InvalidValue) }
    }

    /// Takes a range out of the regions that it touches: a scripted one may lie in any.
    pub(super) fn take_addresses(&mut self, at: u64, bytes: u64) {
        for device in &mut self.devices {
            device.malloc_space.take(at, bytes);
            device.va_space.take(at, bytes);
        }
    }

    pub(super) fn give_addresses(&mut self, at: u64, bytes: u64) {
        for device in &mut self.devices {
            device.malloc_space.give(at, bytes);
            device.va_space.give(at, bytes);
        }
    }
}
