//! How the simulator's calls come to the detector, and what allocators and tests say to it.

use std::panic::Location;

use super::super::access::Toucher;
use super::super::driver::SimDriver;
use super::super::node::{Node, NodeWork};
use super::super::report::Touched;
use super::super::slab::Id;
use super::super::state::State;
use super::detector::{Detector, Issued};
use super::frame::Origin;
use super::graph::GraphClocks;
use super::report::Race;
use crate::driver::{DevicePtr, StreamHandle, Witness};

impl State {
    /// Tells the detector of an item that is about to be issued on a stream.
    pub(in crate::driver::sim) fn watch_issue(
        &mut self,
        stream: Id,
        name: &'static str,
        by_copy: bool,
        device: impl IntoIterator<Item = Touched>,
        host: impl IntoIterator<Item = Touched>,
    ) {
        let Self { races: Some(races), memory, streams, devices, .. } = self else { return };
        let Some(on) = streams.get(stream) else { return };
        let index = on.device;
        let peers = devices.get(usize::from(index)).map_or(0, |device| device.peers);
        let issued_at = memory.births;
        let who = Toucher {
            device: index,
            process: Some(on.process),
            reach: peers | 1 << index,
            by_copy,
            issued_at,
        };
        let item = Issued { stream, handle: on.handle(stream), place: on.issued + 1, name };
        races.issue(memory, &who, item, device, host);
    }

    /// Tells it that a life of a pool's range begins or ends in the order of a stream.
    pub(in crate::driver::sim) fn watch_pool(&mut self, stream: Id, name: &'static str, at: u64, bytes: u64) {
        let Self { races: Some(races), streams, .. } = self else { return };
        let Some(on) = streams.get(stream) else { return };
        let item = Issued { stream, handle: on.handle(stream), place: on.issued + 1, name };
        races.pool_life(item, at, bytes);
    }

    /// Tells it of a node of a launch that is about to be issued; `bytes` is the length of what it allocates or frees.
    pub(in crate::driver::sim) fn watch_node(
        &mut self,
        clocks: Option<&mut GraphClocks>,
        node: &Node,
        bytes: u64,
        (stream, place): (Id, u64),
    ) {
        let Self { races: Some(races), memory, streams, devices, .. } = self else { return };
        let (Some(clocks), Some(on)) = (clocks, streams.get(stream)) else { return };
        let peers = devices.get(usize::from(node.device)).map_or(0, |device| device.peers);
        let who = Toucher {
            device: node.device,
            process: Some(on.process),
            reach: peers | 1 << node.device,
            by_copy: matches!(node.work, NodeWork::Copy { .. }),
            issued_at: memory.births,
        };
        let item = Issued { stream, handle: on.handle(stream), place, name: node.work.name() };
        let before: Vec<usize> = node.dependencies.iter().map(|before| before.index()).collect();
        let epoch = races.graph_node(clocks, &before, node.device);
        match node.work {
            NodeWork::Alloc { at, .. } | NodeWork::Free { at } => races.pool_life_at(epoch, item, at, bytes),
            NodeWork::Record(event) => races.graph_records(clocks, event.raw()),
            _ => {
                let (device, host) = node.work.touched();
                races.uses(memory, &who, (epoch, true), item, device, host);
            }
        }
    }

    /// Tells it of a node that has been captured, the `place`th of its graph.
    pub(in crate::driver::sim) fn watch_captured(&mut self, stream: Id, place: u64, node: &Node) {
        let Self { races: Some(races), memory, streams, .. } = self else { return };
        let Some(on) = streams.get(stream) else { return };
        let who = Toucher {
            device: node.device,
            process: Some(on.process),
            reach: u32::MAX,
            by_copy: true,
            issued_at: memory.births,
        };
        let item = Issued { stream, handle: on.handle(stream), place, name: node.work.name() };
        races.captured(memory, &who, item, node.work.touched().0);
    }

    /// Does something with the detector, if there is one.
    #[inline]
    pub(in crate::driver::sim) fn watch(&mut self, tell: impl FnOnce(&mut Detector)) {
        if let Some(races) = &mut self.races {
            tell(races);
        }
    }
}

impl SimDriver {
    /// What the race detector has found, oldest first; at most the first 1,000. Empty where
    /// [`race_detector`](super::super::SimConfig::race_detector) is off.
    pub fn races(&self) -> Vec<Race> {
        self.lock().races.as_ref().map(|races| races.races().to_vec()).unwrap_or_default()
    }

    /// Takes what the race detector has found.
    pub fn take_races(&self) -> Vec<Race> {
        self.lock().races.as_mut().map(|races| races.take_races()).unwrap_or_default()
    }

    /// Tells the race detector that the host reads, or writes, its own memory now. It sees copies by itself, and
    /// nothing else that happens to memory of the host.
    #[track_caller]
    pub fn host_uses(&self, ptr: *const u8, bytes: u64, write: bool) {
        let origin = Origin::of_call(Location::caller());
        self.lock().watch(|races| {
            races.begin_call(origin);
            races.host_touches(ptr.addr() as u64, bytes, write);
        });
    }
}

impl Witness for SimDriver {
    fn watches(&self) -> bool {
        self.lock().races.is_some()
    }

    fn handed_out(&self, ptr: DevicePtr, bytes: u64, stream: StreamHandle) {
        let origin = Origin::of_call(Location::caller());
        let Some(mut state) = self.lock_outside_work() else { return };
        let State { races: Some(races), memory, .. } = &mut *state else { return };
        races.begin_call(origin);
        races.handed_out(memory, ptr, bytes, stream);
    }

    fn taken_back(&self, ptr: DevicePtr) {
        let origin = Origin::of_call(Location::caller());
        let Some(mut state) = self.lock_outside_work() else { return };
        state.watch(|races| {
            races.begin_call(origin);
            races.taken_back(ptr);
        });
    }
}
