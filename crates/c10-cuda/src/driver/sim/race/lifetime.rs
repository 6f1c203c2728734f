//! What comes to life and what ends: the driver's ranges, mappings, host memory, and blocks of allocators.

use std::sync::Arc;

use c10_core::DeviceIndex;

use super::super::memory::Memory;
use super::super::report::{AccessFault, Touched};
use super::super::slab::Id;
use super::clock::{Epoch, VectorClock};
use super::detector::{Detector, Issued, Space};
use super::history::Made;
use super::report::RaceKind;
use crate::driver::{DevicePtr, StreamHandle};

impl Detector {
    /// `malloc` has given a range.
    pub(in crate::driver::sim) fn allocated(&mut self, at: u64, bytes: u64) {
        self.forget_freed(at, bytes);
    }

    /// `free` takes a range of a device back. What is under way on its device is over by then, since it waits.
    pub(in crate::driver::sim) fn freed(&mut self, device: DeviceIndex, at: u64, bytes: u64, extent: u64) {
        let after = self.lines.after_device(device);
        self.ended("free", Space::Allocation(at), (at, bytes), &after);
        self.histories.remove(&Space::Allocation(at));
        self.nobody_holds("free", at, at.saturating_add(extent), bytes);
    }

    /// `free_range` gives a range of addresses back, of which nothing is mapped.
    pub(in crate::driver::sim) fn range_freed(&mut self, at: u64, bytes: u64) {
        self.nobody_holds("free_range", at, at.saturating_add(bytes), bytes);
    }

    /// `unmap` takes a mapping of physical memory away; it waits for nothing.
    pub(in crate::driver::sim) fn unmapped(&mut self, at: u64, physical: Id, bytes: u64) {
        let by = self.use_by_call("unmap", at, bytes);
        let mut found = Vec::new();
        if let Some(history) = self.histories.get(&Space::Physical(physical)) {
            history.look(0, bytes, self.lines.host(), &mut found);
        }
        // What uses the memory by another mapping goes on.
        let by_this = |used: Touched| {
            used.ptr.0 < at.saturating_add(bytes) && at < used.ptr.0.saturating_add(used.bytes)
        };
        for made in found.into_iter().filter(|made| by_this(made.by.range)) {
            self.report(RaceKind::FreedUnderUse, Some(made.by), &by);
        }
        self.remember_freed(by);
    }

    /// `map` has put physical memory behind addresses.
    pub(in crate::driver::sim) fn mapped(&mut self, at: u64, bytes: u64) {
        self.forget_freed(at, bytes);
    }

    /// Physical memory is gone.
    pub(in crate::driver::sim) fn physical_gone(&mut self, physical: Id) {
        self.histories.remove(&Space::Physical(physical));
    }

    /// `host_free` takes pinned memory back.
    pub(in crate::driver::sim) fn host_freed(&mut self, at: u64, bytes: u64) {
        let host = self.lines.host().clone();
        self.ended("host_free", Space::Host, (at, bytes), &host);
    }

    /// An allocator hands a block out (rule O4).
    pub(in crate::driver::sim) fn handed_out(
        &mut self,
        memory: &Memory,
        ptr: DevicePtr,
        bytes: u64,
        stream: StreamHandle,
    ) {
        let by = self.use_by_call("hand out", ptr.0, bytes);
        let Some((base, _)) = memory.range_at(ptr.0).filter(|(_, device)| *device == stream.device) else {
            return self.report(RaceKind::Foreign(AccessFault::NotLive), None, &by);
        };
        if let Some(other) = self.blocks.hand_out(base, ptr.0, bytes, &by) {
            self.report(RaceKind::HandedOutTwice, Some(other), &by);
        }
    }

    /// It takes a block back.
    pub(in crate::driver::sim) fn taken_back(&mut self, ptr: DevicePtr) {
        if let Some(bytes) = self.blocks.bytes_of(ptr.0) {
            let by = self.use_by_call("take back", ptr.0, bytes);
            self.blocks.take_back(ptr.0, by);
        }
    }

    /// `malloc_async` or `free_async`: each is a use of all the memory by its stream, so that what others do with it
    /// is to be ordered between the two. A range that goes to another stream does so once its free has run, and what
    /// comes is behind that.
    pub(in crate::driver::sim) fn pool_life(&mut self, item: Issued, at: u64, bytes: u64) {
        let begins = item.name == "malloc_async";
        if begins && let Some(free) = self.pool_frees.remove(&at) {
            self.lines.join(item.stream, item.handle.device, &free);
        }
        let epoch = self.lines.advance(item.stream, item.handle.device);
        self.pool_life_at(epoch, item, at, bytes);
    }

    /// The same at a moment that is known.
    pub(super) fn pool_life_at(&mut self, epoch: Epoch, item: Issued, at: u64, bytes: u64) {
        let begins = item.name == "malloc_async";
        let range = Touched { ptr: DevicePtr(at), bytes, write: true };
        let by = self.use_of(item.name, Some((item.handle, item.place)), range);
        if begins {
            self.forget_freed(at, bytes);
            if let Some(other) = self.blocks.hand_out(at, at, bytes, &by) {
                self.report(RaceKind::HandedOutTwice, Some(other), &by);
            }
        } else {
            self.pool_frees.insert(at, self.lines.clock(epoch.line).clone());
            self.blocks.take_back(at, Arc::clone(&by));
        }
        self.touch(Space::Allocation(at), (0, bytes), &Made { epoch, by, life: 0 });
    }

    /// A pool gives a range back to the device: its free has run.
    pub(in crate::driver::sim) fn pool_released(&mut self, at: u64, extent: u64) {
        self.pool_frees.remove(&at);
        self.histories.remove(&Space::Allocation(at));
        let by = self.use_by_call("mem_pool_trim", at, extent);
        self.blocks.forget_range(at, at.saturating_add(extent));
        self.remember_freed(by);
    }

    /// Rule O3, for uses.
    fn ended(&mut self, call: &'static str, space: Space, (at, bytes): (u64, u64), after: &VectorClock) {
        let by = self.use_by_call(call, at, bytes);
        // Memory of a device is told apart by offset, the host's by address.
        let from = if space == Space::Host { at } else { 0 };
        for first in self.forget(space, from, bytes, after) {
            self.report(RaceKind::FreedUnderUse, Some(first), &by);
        }
        if space != Space::Host {
            self.remember_freed(by);
        }
    }

    /// Rule O3, for blocks.
    fn nobody_holds(&mut self, call: &'static str, at: u64, end: u64, bytes: u64) {
        let held = self.blocks.forget_range(at, end);
        let by = self.use_by_call(call, at, bytes);
        for first in held {
            self.report(RaceKind::FreedWhileHeld, Some(first), &by);
        }
    }

    /// What the host declares that it does with its own memory.
    pub(in crate::driver::sim) fn host_touches(&mut self, at: u64, bytes: u64, write: bool) {
        self.host_uses(Touched { ptr: DevicePtr(at), bytes, write });
    }
}

/// What orders.
impl Detector {
    /// An event is recorded behind what a stream holds.
    pub(in crate::driver::sim) fn records(&mut self, stream: Id, device: DeviceIndex, event: u64) {
        self.lines.record(event, stream, device);
    }

    /// A stream waits for an event that was recorded.
    pub(in crate::driver::sim) fn waits(&mut self, stream: Id, device: DeviceIndex, event: u64) {
        self.lines.wait(event, stream, device);
    }

    /// A stream waits for all that another of its device holds.
    pub(in crate::driver::sim) fn follows(&mut self, stream: Id, other: Id, device: DeviceIndex) {
        self.lines.follow(stream, other, device);
    }

    /// An event is gone.
    pub(in crate::driver::sim) fn event_ended(&mut self, event: u64) {
        self.lines.forget_event(event);
    }

    /// The host has seen that an event's work is over.
    pub(in crate::driver::sim) fn host_saw_event(&mut self, event: u64) {
        self.lines.host_saw_event(event);
    }

    /// The host has seen that a stream's work is over.
    pub(in crate::driver::sim) fn host_saw_stream(&mut self, stream: Id) {
        self.lines.host_saw_stream(stream);
    }

    /// The host has seen that all work of a device is over.
    pub(in crate::driver::sim) fn host_saw_device(&mut self, device: DeviceIndex) {
        self.lines.host_saw_device(device);
    }

    /// A stream is gone, and all its work has run.
    pub(in crate::driver::sim) fn stream_ended(&mut self, stream: Id) {
        self.lines.stream_ended(stream);
    }
}
