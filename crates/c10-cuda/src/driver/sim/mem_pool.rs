//! The default memory pool of a device: memory in stream order.
//!
//! Each allocation is a range of its own in whole units; what is in use is counted in steps of 512 bytes. A freed
//! range serves the next request of the same length, lowest address first, on the stream that freed it, or on any
//! once that stream has come to the free. Only a trim gives it back to the device, or a synchronising call that
//! finds more than the release threshold. A real driver's pools split and merge, too: to have as much room as they
//! do, [frugal](super::SimConfig::frugal_pools) ones take finer lengths, and a request that finds no room has freed
//! ranges given back.
//!
//! A range has several lives, and work means the one of the time at which it was issued: what a stream still holds
//! of an earlier life may run while a later request has the range already, for it runs first.

use std::collections::BTreeSet;

use c10_core::DeviceIndex;

use super::log::Call;
use super::memory::Allocation;
use super::slab::Id;
use super::space::round_up;
use super::state::State;
use super::work::Item;
use crate::driver::{DevicePtr, MemPoolInfo, Status, StreamHandle};

/// Used bytes are counted in steps of so many.
const STEP: u64 = 512;

/// The length of a frugal pool's range: few bytes more, and few different lengths. `None` where it is no number.
fn fine_length(bytes: u64) -> Option<u64> {
    let step = (bytes.checked_next_power_of_two()? / 16).max(STEP);
    bytes.checked_next_multiple_of(step)
}

/// A sum and its largest value.
#[derive(Clone, Copy, Debug, Default)]
struct Watermark {
    now: u64,
    high: u64,
}

impl Watermark {
    fn increase(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

/// The pool of one device.
#[derive(Debug, Default)]
pub(super) struct MemPool {
    used: Watermark,
    reserved: Watermark,
    release_threshold: u64,
    /// The freed ranges, as length and address.
    freed: BTreeSet<(u64, u64)>,
}

impl MemPool {
    /// A request of so many bytes is given out.
    pub(super) fn take(&mut self, bytes: u64) {
        self.used.increase(bytes.next_multiple_of(STEP));
    }

    /// It is over.
    pub(super) fn give(&mut self, bytes: u64) {
        self.used.now -= bytes.next_multiple_of(STEP);
    }

    /// The device gives so many bytes.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved.increase(bytes);
    }

    /// They go back.
    pub(super) fn unreserve(&mut self, bytes: u64) {
        self.reserved.now -= bytes;
    }

    pub(super) fn reset_peaks(&mut self) {
        for mark in [&mut self.used, &mut self.reserved] {
            mark.high = mark.now;
        }
    }

    pub(super) fn info(&self) -> MemPoolInfo {
        MemPoolInfo {
            used: self.used.now,
            used_peak: self.used.high,
            reserved: self.reserved.now,
            reserved_peak: self.reserved.high,
        }
    }
}

/// A range that belonged to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Work issued from then on, in births, means it.
    pub(super) birth: u64,
    /// Work issued from then on does not; `None` while it lasts.
    pub(super) death: Option<u64>,
    /// What was asked for.
    pub(super) bytes: u64,
}

impl Life {
    /// Whether work issued at `issued_at` came after it.
    pub(super) fn is_over(&self, issued_at: u64) -> bool {
        self.death.is_some_and(|death| death <= issued_at)
    }
}

/// What a range of a pool knows beside what every allocation does.
#[derive(Debug, Default)]
pub(super) struct Pooled {
    /// The free that ended its present life, if one did: the stream, and the place there.
    pub(super) freed: Option<(Id, u64)>,
    /// When that was, in births.
    death: u64,
    /// Earlier lives that some stream may still be in.
    past: Vec<Life>,
    /// Whether it is a graph's, which no pool gives out.
    pub(super) of_graph: bool,
}

impl Pooled {
    /// A range of a graph that has had no life: `begin` is a place that has run.
    pub(super) fn of_graph(birth: u64, begin: (Id, u64)) -> Self {
        Self { freed: Some(begin), death: birth, past: Vec::new(), of_graph: true }
    }
}

impl Allocation {
    /// The life that work issued at `issued_at` means, or else the present one.
    pub(super) fn life_at(&self, issued_at: u64) -> Life {
        let death = self.pooled.as_ref().and_then(|p| p.freed.map(|_| p.death));
        let now = Life { birth: self.birth, death, bytes: self.bytes };
        let past = self.pooled.iter().flat_map(|pooled| &pooled.past);
        past.copied().find(|life| life.birth <= issued_at && !life.is_over(issued_at)).unwrap_or(now)
    }
}

impl State {
    pub(super) fn malloc_async(&mut self, bytes: u64, on: StreamHandle) -> Result<DevicePtr, Status> {
        let stream = self.stream_id(on)?;
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        let mut extent = round_up(bytes).ok_or(Status::OutOfMemory)?;
        if self.captures(stream)? {
            return self.malloc_in_graph(stream, on.device, bytes, extent);
        }
        if self.frugal_pools {
            extent = extent.min(fine_length(bytes).unwrap_or(extent));
        }
        self.order_with_default(stream)?;
        let reused = self.reusable(on.device, extent, stream)?;
        let at = match reused {
            Some(at) => {
                self.device_mut(on.device)?.pool.freed.remove(&(extent, at));
                self.begin_life(at, bytes);
                at
            }
            None => self.reserve_for_pool(on, bytes, extent)?,
        };
        self.device_mut(on.device)?.pool.take(bytes);
        self.watch_pool(stream, "malloc_async", at, bytes);
        Ok(DevicePtr(at))
    }

    /// The lowest freed range of that length whose free comes before what the stream holds next.
    fn reusable(&self, device: DeviceIndex, extent: u64, stream: Id) -> Result<Option<u64>, Status> {
        let freed = &self.device(device)?.pool.freed;
        let mut ranges = freed.range((extent, 0)..=(extent, u64::MAX)).map(|(_, at)| *at);
        Ok(ranges.find(|at| match self.freed_at(*at) {
            Some((on, place)) => on == stream || self.has_run(on, place),
            None => false,
        }))
    }

    /// The free of a pool's range.
    fn freed_at(&self, at: u64) -> Option<(Id, u64)> {
        self.memory.allocations.get(&at)?.pooled.as_ref()?.freed
    }

    /// Gives a freed range its next life.
    pub(super) fn begin_life(&mut self, at: u64, bytes: u64) {
        let over = self.freed_at(at).is_some_and(|(on, place)| self.has_run(on, place));
        self.memory.births += 1;
        let birth = self.memory.births;
        let Some(allocation) = self.memory.allocations.get_mut(&at) else { return };
        let (born, was) = (allocation.birth, allocation.bytes);
        let Some(pooled) = allocation.pooled.as_mut() else { return };
        (allocation.birth, allocation.bytes) = (birth, bytes);
        pooled.freed = None;
        if over {
            pooled.past.clear();
        } else {
            pooled.past.push(Life { birth: born, death: Some(pooled.death), bytes: was });
        }
    }

    /// Ends the present life of a range at a place of a stream: what is issued after this is issued at a later time
    /// than what was before.
    pub(super) fn end_life(&mut self, at: u64, place: (Id, u64)) {
        self.memory.births += 1;
        let death = self.memory.births;
        let pooled = self.memory.allocations.get_mut(&at).and_then(|a| a.pooled.as_mut());
        if let Some(pooled) = pooled {
            (pooled.freed, pooled.death) = (Some(place), death);
        }
    }

    /// A new range of the device's memory.
    fn reserve_for_pool(&mut self, on: StreamHandle, bytes: u64, extent: u64) -> Result<u64, Status> {
        if !self.has_room(on.device, extent)? && self.frugal_pools {
            self.make_room(on.device, extent)?;
        }
        let fits = self.has_room(on.device, extent)?;
        let device = self.device(on.device)?;
        let Some(at) = device.malloc_space.find(extent).filter(|_| fits) else {
            self.note_pool("mem_pool_reserve", on.device, 0, extent, Some(Status::OutOfMemory));
            return Err(Status::OutOfMemory);
        };
        self.take_addresses(at, extent);
        let device = self.device_mut(on.device)?;
        device.in_use += extent;
        device.pool.reserve(extent);
        self.memory.births += 1;
        let pooled = Some(Box::default());
        let allocation =
            Allocation::new((on.device, self.process), bytes, extent, self.memory.births, pooled);
        self.memory.allocations.insert(at, allocation);
        self.note_pool("mem_pool_reserve", on.device, at, extent, None);
        Ok(at)
    }

    fn has_room(&self, device: DeviceIndex, extent: u64) -> Result<bool, Status> {
        let device = self.device(device)?;
        Ok(extent <= device.total - device.in_use)
    }

    /// Gives freed ranges of a pool back until so much is free: those whose free has run, then, by address, those
    /// whose free runs now. It does nothing where all of them would not do.
    fn make_room(&mut self, device: DeviceIndex, extent: u64) -> Result<(), Status> {
        let state = self.device(device)?;
        let mut freed: Vec<(bool, u64, u64)> = Vec::new();
        let mut available = state.total - state.in_use;
        for &(length, at) in &state.pool.freed {
            let Some((on, place)) = self.freed_at(at) else { continue };
            freed.push((!self.has_run(on, place), at, length));
            available += length;
        }
        if available < extent {
            return Ok(());
        }
        freed.sort_unstable();
        for (_, at, length) in freed {
            if self.has_room(device, extent)? {
                break;
            }
            if let Some((on, place)) = self.freed_at(at) {
                self.run_to(on, place);
                self.release_range(device, at, length)?;
            }
        }
        Ok(())
    }

    /// Gives a freed range, whose free has run, back to the device.
    fn release_range(&mut self, device: DeviceIndex, at: u64, extent: u64) -> Result<(), Status> {
        self.memory.allocations.remove(&at);
        self.watch(|races| races.pool_released(at, extent));
        self.give_addresses(at, extent);
        let state = self.device_mut(device)?;
        state.in_use -= extent;
        state.pool.unreserve(extent);
        state.pool.freed.remove(&(extent, at));
        self.note_pool("mem_pool_release", device, at, extent, None);
        Ok(())
    }

    /// Ends the present life of a range where the stream is now; gives its length.
    pub(super) fn free_async(&mut self, ptr: DevicePtr, on: StreamHandle) -> Result<u64, Status> {
        let stream = self.stream_id(on)?;
        if let Some(extent) = self.free_in_graph(ptr.0, stream)? {
            return Ok(extent);
        }
        let allocation = self.memory.allocations.get(&ptr.0).ok_or(Status::InvalidValue)?;
        let (device, bytes, extent) = (allocation.device, allocation.bytes, allocation.extent);
        if allocation.pooled.as_ref().is_none_or(|pooled| pooled.freed.is_some()) {
            return Err(Status::InvalidValue);
        }
        // Memory of the device is not a graph's to give back.
        self.forbid_on_capturing(stream).map_err(|_| Status::InvalidValue)?;
        self.order_with_default(stream)?;
        self.watch_pool(stream, "free_async", ptr.0, bytes);
        let (place, _) = self.issue(stream, Item::Free, 0, 0);
        self.end_life(ptr.0, (stream, place));
        let pool = &mut self.device_mut(device)?.pool;
        pool.freed.insert((extent, ptr.0));
        pool.give(bytes);
        Ok(bytes)
    }

    /// Gives freed ranges back, lowest address first, until the pool holds `keep` bytes.
    pub(super) fn mem_pool_trim(&mut self, device: DeviceIndex, keep: u64) -> Result<(), Status> {
        let mut freed: Vec<(u64, u64)> =
            self.device(device)?.pool.freed.iter().map(|(n, at)| (*at, *n)).collect();
        freed.sort_unstable();
        for (at, extent) in freed {
            if self.device(device)?.pool.reserved.now <= keep {
                break;
            }
            if !self.freed_at(at).is_some_and(|(on, place)| self.has_run(on, place)) {
                continue;
            }
            self.release_range(device, at, extent)?;
        }
        Ok(())
    }

    /// What a synchronising call of the device does to its pool.
    pub(super) fn release_beyond_threshold(&mut self, device: DeviceIndex) -> Result<(), Status> {
        self.release_graph_memory();
        let pool = &self.device(device)?.pool;
        let keep = pool.release_threshold;
        if pool.freed.is_empty() || pool.reserved.now <= keep {
            return Ok(());
        }
        self.mem_pool_trim(device, keep)
    }

    pub(super) fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo, Status> {
        Ok(self.device(device)?.pool.info())
    }

    pub(super) fn mem_pool_reset_peaks(&mut self, device: DeviceIndex) -> Result<(), Status> {
        self.device_mut(device)?.pool.reset_peaks();
        Ok(())
    }

    pub(super) fn set_release_threshold(&mut self, device: DeviceIndex, bytes: u64) -> Result<(), Status> {
        self.device_mut(device)?.pool.release_threshold = bytes;
        Ok(())
    }

    pub(super) fn mem_pool_set_access(
        &mut self,
        device: DeviceIndex,
        peer: DeviceIndex,
    ) -> Result<(), Status> {
        if !self.can_access_peer(peer, device)? && device != peer {
            return Err(Status::PeerAccessUnsupported);
        }
        self.memory.pool_access[usize::from(device)] |= 1 << peer;
        Ok(())
    }

    /// Writes down what a pool took from its device or gave back: a call does that, or does not.
    pub(super) fn note_pool(
        &mut self,
        name: &'static str,
        device: DeviceIndex,
        at: u64,
        bytes: u64,
        status: Option<Status>,
    ) {
        if self.calls.is_on() {
            let ptr = DevicePtr(at);
            self.calls.push(Call { name, device, ptr, bytes, stream: None, event: None, status });
        }
    }
}
