//! What memory the program holds: of devices, by address, and of the host.

use std::collections::BTreeMap;

use c10_cuda::driver::{Driver, StreamHandle};

use super::shares::Share;
use super::virtual_memory::{Mapping, Physical};
use super::{Machine, OnStream, Table, is_device_address};
use crate::abi::{Code, Handle, Outcome};

/// How a range of a device's memory came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocationKind {
    /// By `cuMemAlloc`.
    Plain,
    /// Out of a memory pool.
    Pooled,
    /// Another process's, opened.
    Opened,
    /// In a capture: an address for a graph, which is not counted as live.
    Graph,
}

/// A range of a device's memory.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) context: Handle,
    pub(crate) bytes: u64,
    pub(crate) kind: AllocationKind,
    pub(crate) id: u64,
    pub(crate) share: Option<Share>,
}

impl Allocation {
    /// How often the program has to give it back.
    fn times(&self) -> usize {
        match self.share {
            Some(Share::Opened(_, times)) => times as usize,
            _ => 1,
        }
    }
}

/// Host memory that the driver gave, or was told of.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(crate) context: Handle,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    pub(crate) registered: bool,
}

/// All that the program holds.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    pub(crate) host: BTreeMap<u64, HostMemory>,
    /// Length by first address.
    pub(crate) reservations: BTreeMap<u64, u64>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    pub(crate) physical: Table<Physical>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            allocations: BTreeMap::new(),
            host: BTreeMap::new(),
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            physical: Table::new(),
        }
    }
}

impl Memory {
    /// How many things the program holds.
    pub(crate) fn live(&self) -> u64 {
        let held = self.allocations.values().filter(|a| a.kind != AllocationKind::Graph);
        let allocations: usize = held.map(Allocation::times).sum();
        let physical: u64 = self.physical.iter().map(|(_, physical)| u64::from(physical.holds)).sum();
        (allocations + self.host.len() + self.reservations.len()) as u64 + physical
    }

    /// The allocation that an address lies in, and where that begins.
    pub(crate) fn allocation_at(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&base, found) = self.allocations.range(..=address).next_back()?;
        (address - base < found.bytes).then_some((base, found))
    }

    /// The host memory that an address lies in.
    pub(crate) fn host_at(&self, address: u64) -> Option<(u64, &HostMemory)> {
        let (&base, found) = self.host.range(..=address).next_back()?;
        (address - base < found.bytes).then_some((base, found))
    }

    pub(crate) fn mapping_at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&base, found) = self.mappings.range(..=address).next_back()?;
        (address - base < found.bytes).then_some((base, found))
    }

    /// Fails unless all of a range is memory of a device that the program holds.
    pub(crate) fn check_device_range(&self, address: u64, bytes: u64) -> Outcome {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        if let Some((base, found)) = self.allocation_at(address) {
            return if end - base <= found.bytes { Ok(()) } else { Err(Code::INVALID_VALUE) };
        }
        let mut at = address;
        while at < end {
            let (base, mapping) = self.mapping_at(at).ok_or(Code::INVALID_VALUE)?;
            at = base + mapping.bytes;
        }
        Ok(())
    }

    /// Strikes what a graph that is gone had where the simulator has just given addresses out anew.
    pub(super) fn forget_graphs_within(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let is_over = |base: u64, a: &Allocation| {
            a.kind == AllocationKind::Graph && base < end && at < base.saturating_add(a.bytes)
        };
        self.allocations.retain(|&base, allocation| !is_over(base, allocation));
    }

    /// Whether copies from and to a range of the host need no detour.
    pub(crate) fn is_pinned(&self, address: u64, bytes: u64) -> bool {
        self.host_at(address).is_some_and(|(base, found)| address.saturating_add(bytes) - base <= found.bytes)
    }

    /// Allocations of a context, as address and kind; one that was opened stands as often as it was.
    pub(super) fn of_context(&self, context: Handle) -> Vec<(u64, AllocationKind)> {
        let of = self.allocations.iter().filter(|(_, allocation)| allocation.context == context);
        of.flat_map(|(&at, allocation)| vec![(at, allocation.kind); allocation.times()]).collect()
    }

    /// Strikes what is of a context.
    pub(super) fn forget_context(&mut self, context: Handle) {
        self.allocations.retain(|_, allocation| allocation.context != context);
        self.host.retain(|_, memory| memory.context != context);
    }

    /// Host memory of a context, and whether it was registered.
    pub(super) fn host_of_context(&self, context: Handle) -> Vec<(u64, bool)> {
        let of = self.host.iter().filter(|(_, memory)| memory.context == context);
        of.map(|(&at, memory)| (at, memory.registered)).collect()
    }
}

impl Machine {
    pub(super) fn note_allocation(&mut self, at: u64, (context, bytes): (Handle, u64), kind: AllocationKind) {
        let id = self.next_number();
        self.memory.forget_graphs_within(at, bytes);
        self.memory.allocations.insert(at, Allocation { context, bytes, kind, id, share: None });
    }

    /// Strikes what was freed off the books. A graph's addresses stay: its next launch allocates there again, and
    /// whether they are allocated is the simulator's to know.
    fn strike(&mut self, ptr: u64) {
        if self.memory.allocations.get(&ptr).is_some_and(|a| a.kind != AllocationKind::Graph) {
            self.memory.allocations.remove(&ptr);
        }
    }

    pub(crate) fn malloc(&mut self, bytes: u64) -> Outcome<u64> {
        let (context, found) = self.current_context()?;
        let at = self.sim.malloc(found.device, bytes)?.0;
        self.note_allocation(at, (context, bytes), AllocationKind::Plain);
        Ok(at)
    }

    pub(crate) fn malloc_async(&mut self, bytes: u64, on: OnStream) -> Outcome<u64> {
        let captures = self.is_capturing(on)?;
        self.before_work(on)?;
        let at = self.sim.malloc_async(bytes, on.sim)?.0;
        let kind = if captures { AllocationKind::Graph } else { AllocationKind::Pooled };
        self.note_allocation(at, (on.context, bytes), kind);
        Ok(at)
    }

    /// Frees memory that begins at an address, once the device has nothing to do; `on` is its default stream.
    pub(crate) fn free(&mut self, ptr: u64, on: StreamHandle) -> Outcome {
        match self.memory.allocations.get(&ptr).map(|allocation| allocation.kind) {
            Some(AllocationKind::Plain) => self.free_promised(ptr)?,
            Some(AllocationKind::Pooled) => {
                let waited = self.sim.device_synchronize(on.device).map_err(Code::from);
                // What a fault was is told; the memory is gone all the same.
                if let Err(code) = waited
                    && !code.is_sticky()
                {
                    return Err(code);
                }
                self.free_async_promised(ptr, on)?;
            }
            Some(AllocationKind::Graph) => self.free_async_promised(ptr, on)?,
            Some(AllocationKind::Opened) | None => return Err(Code::INVALID_VALUE),
        }
        self.strike(ptr);
        Ok(())
    }

    pub(crate) fn free_async(&mut self, ptr: u64, on: OnStream) -> Outcome {
        match self.memory.allocations.get(&ptr).map(|allocation| allocation.kind) {
            Some(AllocationKind::Pooled | AllocationKind::Graph) => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        self.before_work(on)?;
        self.free_async_promised(ptr, on.sim)?;
        self.strike(ptr);
        Ok(())
    }

    pub(crate) fn host_alloc(&mut self, bytes: u64, flags: u32) -> Outcome<u64> {
        const KNOWN: u32 = 0x7;
        if flags & !KNOWN != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (context, _) = self.current_context()?;
        let at = self.sim.host_alloc(bytes)?.as_ptr().expose_provenance() as u64;
        self.memory.host.insert(at, HostMemory { context, bytes, flags, registered: false });
        Ok(at)
    }

    pub(crate) fn free_host(&mut self, address: u64) -> Outcome {
        match self.memory.host.get(&address) {
            Some(memory) if !memory.registered => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        self.host_free_promised(address)?;
        self.memory.host.remove(&address);
        Ok(())
    }

    pub(crate) fn register_host(&mut self, address: u64, bytes: u64, flags: u32) -> Outcome {
        const KNOWN: u32 = 0xf;
        if flags & !KNOWN != 0 || is_device_address(address) {
            return Err(Code::INVALID_VALUE);
        }
        let (context, _) = self.current_context()?;
        self.host_register_promised(address, bytes).map_err(|code| match code {
            Code::ALREADY_MAPPED => Code::HOST_MEMORY_ALREADY_REGISTERED,
            code => code,
        })?;
        self.memory.host.insert(address, HostMemory { context, bytes, flags, registered: true });
        Ok(())
    }

    pub(crate) fn unregister_host(&mut self, address: u64) -> Outcome {
        match self.memory.host.get(&address) {
            Some(memory) if memory.registered => {}
            _ => return Err(Code::HOST_MEMORY_NOT_REGISTERED),
        }
        self.host_unregister_promised(address)?;
        self.memory.host.remove(&address);
        Ok(())
    }
}

impl Machine {
    /// The range that an address of a device or of pinned memory lies in: where it begins, and its length.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let memory = &self.memory;
        let reserved = || {
            let (&base, &bytes) = memory.reservations.range(..=address).next_back()?;
            (address - base < bytes).then_some((base, bytes))
        };
        let allocation = memory.allocation_at(address).map(|(base, found)| (base, found.bytes));
        let host = || memory.host_at(address).map(|(base, found)| (base, found.bytes));
        allocation.or_else(reserved).or_else(host)
    }
}
