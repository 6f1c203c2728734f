//! Memory of graphs: addresses that a capture gives out, and what is behind them when the graph runs.
//!
//! An address is the graph's from its capture on, and stays so while the graph, what it was made launchable as or a
//! launch of it is there. Memory comes behind it with the first launch, or upload, and goes when the graph goes. Each
//! launch is a life of its own of the memory, as a pool's ranges have lives ([`mem_pool`](super::mem_pool)). What a
//! launch leaves alive, the program may free in any stream; else the next launch frees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::mem_pool::Pooled;
use super::memory::{Allocation, Memory};
use super::node::{Node, NodeWork};
use super::slab::Id;
use super::state::State;
use super::work::Item;
use crate::driver::{DevicePtr, MemPoolInfo, NodeId, Status};

/// An address range of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct GraphRange {
    pub(super) device: DeviceIndex,
    pub(super) extent: u64,
    /// The graph, by its capture's number.
    pub(super) graph: u64,
    /// What was last asked for.
    pub(super) bytes: u64,
    /// Where in its own capture it was freed, if it was.
    freed_at: Option<NodeId>,
    /// Whether the program has given it up.
    given_up: bool,
}

/// How often the memory of each graph is held: by the graph, by what it was made launchable as, by launches.
pub(super) type GraphHolds = BTreeMap<u64, u32>;

impl State {
    /// An address for a capture, with nothing behind it yet. One that the capture has freed serves again where the
    /// free comes before.
    pub(super) fn malloc_in_graph(
        &mut self,
        stream: Id,
        device: DeviceIndex,
        bytes: u64,
        extent: u64,
    ) -> Result<DevicePtr, Status> {
        let graph = self.captured_in(stream).ok_or(Status::CaptureInvalidated)?;
        let again = self.freed_before(stream, graph, device, extent);
        let at = match again {
            Some(at) => at,
            None => {
                let at = self.device(device)?.va_space.find(extent).ok_or(Status::OutOfMemory)?;
                self.take_addresses(at, extent);
                at
            }
        };
        self.memory.graph_freed.remove(&(graph, extent, at));
        let range = GraphRange { device, extent, graph, bytes, freed_at: None, given_up: false };
        self.memory.graph_ranges.insert(at, range);
        self.add_node(stream, NodeWork::Alloc { at, bytes }, 0);
        self.note_pool("graph_malloc", device, at, bytes, None);
        Ok(DevicePtr(at))
    }

    /// The lowest address of that length that a capture has freed before what the stream holds next.
    fn freed_before(&mut self, stream: Id, graph: u64, device: DeviceIndex, extent: u64) -> Option<u64> {
        let freed = self.memory.graph_freed.range((graph, extent, 0)..=(graph, extent, u64::MAX));
        let freed: Vec<u64> = freed.map(|(.., at)| *at).collect();
        let before = if freed.is_empty() { return None } else { self.captured_before(stream) };
        let comes_before = |node: NodeId| before.get(node.index()).is_some_and(|before| *before);
        freed.into_iter().find(|at| {
            let range = self.memory.graph_ranges.get(at).filter(|range| range.device == device);
            range.and_then(|range| range.freed_at).is_some_and(comes_before)
        })
    }

    /// Gives memory of a graph back; a node where the stream captures. `None` when it is no such memory.
    pub(super) fn free_in_graph(&mut self, at: u64, stream: Id) -> Result<Option<u64>, Status> {
        let Some(range) = self.memory.graph_ranges.get(&at).copied() else { return Ok(None) };
        let lives = self.graph_life(at).is_some();
        let captures = self.captures(stream)?;
        let own = self.captured_in(stream) == Some(range.graph);
        if range.given_up && (own || !lives) {
            return Err(Status::InvalidValue);
        }
        let mut freed_at = range.freed_at;
        if captures {
            let node = self.add_node(stream, NodeWork::Free { at }, 0);
            freed_at = if own { node } else { freed_at };
        } else if lives {
            self.order_with_default(stream)?;
            self.free_graph_life(at, stream);
        }
        if let Some(range) = self.memory.graph_ranges.get_mut(&at) {
            (range.freed_at, range.given_up) = (freed_at, true);
        }
        if captures && own {
            self.memory.graph_freed.insert((range.graph, range.extent, at));
        }
        self.note_pool("graph_free", range.device, at, range.extent, None);
        self.release_graph_memory();
        Ok(Some(range.extent))
    }

    /// The length of the life that the memory at an address has now.
    fn graph_life(&self, at: u64) -> Option<u64> {
        let allocation = self.memory.allocations.get(&at)?;
        let pooled = allocation.pooled.as_ref()?;
        (pooled.of_graph && pooled.freed.is_none()).then_some(allocation.bytes)
    }

    /// Ends the present life behind what the stream holds.
    fn free_graph_life(&mut self, at: u64, stream: Id) {
        let Some(bytes) = self.graph_life(at) else { return };
        self.watch_pool(stream, "free_async", at, bytes);
        let (place, _) = self.issue(stream, Item::Free, 0, 0);
        self.end_life(at, (stream, place));
    }

    /// Refuses a launch that frees what does not live.
    pub(super) fn check_graph_memory(&self, nodes: &[Arc<Node>]) -> Result<(), Status> {
        let mut changed = BTreeMap::new();
        for node in nodes {
            match node.work {
                NodeWork::Alloc { at, .. } => _ = changed.insert(at, true),
                NodeWork::Free { at } => {
                    let lives = changed.insert(at, false).unwrap_or_else(|| self.graph_life(at).is_some());
                    if !lives {
                        return Err(Status::InvalidValue);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts memory behind the addresses that have none yet. All or none.
    pub(super) fn back_graph_memory(&mut self, nodes: &[Arc<Node>]) -> Result<(), Status> {
        let mut missing = BTreeSet::new();
        for node in nodes {
            if let NodeWork::Alloc { at, .. } = node.work
                && !self.memory.allocations.contains_key(&at)
            {
                missing.insert(at);
            }
        }
        let ranges: Vec<(u64, GraphRange)> =
            missing.iter().filter_map(|at| Some((*at, *self.memory.graph_ranges.get(at)?))).collect();
        let mut needed = vec![0_u64; self.devices.len()];
        for (_, range) in &ranges {
            needed[usize::from(range.device)] += range.extent;
        }
        if self.devices.iter().zip(&needed).any(|(device, needed)| *needed > device.total - device.in_use) {
            return Err(Status::OutOfMemory);
        }
        for (at, range) in ranges {
            self.memory.births += 1;
            let (birth, process) = (self.memory.births, self.process);
            let begin = self.device(range.device)?.default_streams[process.index()];
            let pooled = Some(Box::new(Pooled::of_graph(birth, (begin, 0))));
            let allocation =
                Allocation::new((range.device, process), range.bytes, range.extent, birth, pooled);
            self.memory.allocations.insert(at, allocation);
            let device = self.device_mut(range.device)?;
            device.in_use += range.extent;
            device.graph_pool.reserve(range.extent);
            device.graph_pool.take(range.extent);
        }
        Ok(())
    }

    /// What earlier launches have left alive of the memory that a launch allocates ends before it.
    pub(super) fn free_what_is_left(&mut self, nodes: &[Arc<Node>], stream: Id) {
        for node in nodes {
            if let NodeWork::Alloc { at, .. } = node.work {
                self.free_graph_life(at, stream);
            }
        }
    }

    /// What a node that is about to be issued does to memory; the length of what it allocates or frees.
    pub(super) fn settle_memory(&mut self, work: &NodeWork) -> u64 {
        match *work {
            NodeWork::Alloc { at, bytes } => {
                self.begin_life(at, bytes);
                bytes
            }
            NodeWork::Free { at } => self.graph_life(at).unwrap_or(0),
            _ => 0,
        }
    }

    /// What it does to memory once it is issued.
    pub(super) fn settle_end(&mut self, work: &NodeWork, (stream, place): (Id, u64)) {
        if let NodeWork::Free { at } = *work {
            self.end_life(at, (stream, place));
        }
    }

    pub(super) fn hold_graph_memory(&mut self, graph: u64) {
        *self.graph_holds.entry(graph).or_insert(0) += 1;
    }

    pub(super) fn drop_graph_memory(&mut self, graph: u64) {
        if let Some(holds) = self.graph_holds.get_mut(&graph) {
            *holds -= 1;
            if *holds == 0 {
                self.graph_holds.remove(&graph);
                if self.memory.graph_ranges.values().any(|range| range.graph == graph) {
                    self.memory.graphs_gone.insert(graph);
                }
                self.release_graph_memory();
            }
        }
    }

    /// Gives back what belongs to no graph any more, is given up and in no use.
    pub(super) fn release_graph_memory(&mut self) {
        if self.memory.graphs_gone.is_empty() {
            return;
        }
        let over = |at: u64| match self.memory.allocations.get(&at).and_then(|a| a.pooled.as_ref()) {
            Some(pooled) => pooled.freed.is_some_and(|(on, place)| self.has_run(on, place)),
            None => true,
        };
        let gone = |(at, range): &(&u64, &GraphRange)| {
            self.memory.graphs_gone.contains(&range.graph) && range.given_up && over(**at)
        };
        let gone: Vec<(u64, GraphRange)> =
            self.memory.graph_ranges.iter().filter(gone).map(|(at, range)| (*at, *range)).collect();
        for (at, GraphRange { device, extent, graph, .. }) in gone {
            self.memory.graph_ranges.remove(&at);
            self.memory.graph_freed.remove(&(graph, extent, at));
            if self.memory.allocations.remove(&at).is_some() {
                self.watch(|races| races.pool_released(at, extent));
                if let Ok(device) = self.device_mut(device) {
                    device.in_use -= extent;
                    device.graph_pool.give(extent);
                    device.graph_pool.unreserve(extent);
                }
            }
            self.give_addresses(at, extent);
        }
        let Memory { graphs_gone, graph_ranges, .. } = &mut self.memory;
        graphs_gone.retain(|graph| graph_ranges.values().any(|range| range.graph == *graph));
    }

    pub(super) fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo, Status> {
        Ok(self.device(device)?.graph_pool.info())
    }

    pub(super) fn graph_memory_reset_peaks(&mut self, device: DeviceIndex) -> Result<(), Status> {
        self.device_mut(device)?.graph_pool.reset_peaks();
        Ok(())
    }
}
