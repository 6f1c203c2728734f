//! Stream capture: what is issued on a capturing stream becomes a node of a graph, and does not run.
//!
//! The rules are those that CUDA documents. A capturing stream keeps the nodes that its next node will depend on.
//! Waiting for an event of a capturing stream brings a stream in, or adds to what its next node depends on; the
//! end fails unless every node is an ancestor of what the stream that began holds. Calls that CUDA calls unsafe
//! are refused, and spoil the captures that the mode of the calling thread forbids it to disturb.
//!
//! What a node would do is kept with it ([`node`](super::node)), for graphs that are launched
//! ([`graph`](super::graph)).

use std::sync::Arc;
use std::thread::{self, ThreadId};

use c10_core::DeviceIndex;

use super::node::{Node, NodeWork};
use super::process::ProcessId;
use super::slab::Id;
use super::state::State;
use crate::driver::{CaptureInfo, CaptureMode, CaptureState, GraphHandle, NodeId, Status, StreamHandle};

/// The captures and graphs of a machine, and the threads that have changed their mode.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// Those under way, in the order in which they began.
    active: Vec<Capture>,
    /// What ended ones gave, by the capture's number.
    graphs: Vec<(u64, Graph)>,
    /// How many there have been.
    begun: u64,
    /// The modes of threads, where they are not [`CaptureMode::Global`].
    modes: Vec<(ThreadId, CaptureMode)>,
}

/// A capture that is under way.
#[derive(Debug)]
struct Capture {
    number: u64,
    origin: Id,
    thread: ThreadId,
    mode: CaptureMode,
    invalid: bool,
    graph: Graph,
}

/// The nodes of a graph, each behind those that it depends on.
#[derive(Debug)]
struct Graph {
    device: DeviceIndex,
    process: ProcessId,
    nodes: Vec<Arc<Node>>,
}

/// A stream's part in a capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    capture: u64,
    /// What the stream's next node will depend on.
    dependencies: Vec<NodeId>,
}

/// What an event stands for that was recorded in a capture.
#[derive(Clone, Debug)]
pub(super) struct Captured(Membership);

/// A node's handle: the capture's number, and the node's place in its graph.
fn node(capture: u64, index: usize) -> NodeId {
    NodeId((capture << 32) | index as u64)
}

impl Captures {
    fn active(&mut self, number: u64) -> Option<&mut Capture> {
        self.active.iter_mut().find(|capture| capture.number == number)
    }

    /// Marks a capture as spoilt.
    fn spoil(&mut self, number: u64) {
        if let Some(capture) = self.active(number) {
            capture.invalid = true;
        }
    }

    fn mode_of(&self, thread: ThreadId) -> CaptureMode {
        let found = self.modes.iter().find(|(of, _)| *of == thread);
        found.map_or(CaptureMode::Global, |(_, mode)| *mode)
    }

    fn graph(&self, number: u64) -> Option<&Graph> {
        let ended = self.graphs.iter().find(|(of, _)| *of == number).map(|(_, graph)| graph);
        ended.or_else(|| self.active.iter().find(|c| c.number == number).map(|c| &c.graph))
    }
}

impl Capture {
    /// Whether this thread, in this mode, may not make unsafe calls while the capture is under way.
    fn forbids(&self, thread: ThreadId, mode: CaptureMode) -> bool {
        if self.mode == CaptureMode::Relaxed || mode == CaptureMode::Relaxed {
            return false;
        }
        self.thread == thread || (self.mode == CaptureMode::Global && mode == CaptureMode::Global)
    }

    /// Which nodes these are, and which come before them.
    fn before(&self, ends: &[NodeId]) -> Vec<bool> {
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut todo = ends.to_vec();
        while let Some(node) = todo.pop() {
            if !std::mem::replace(&mut seen[node.index()], true) {
                todo.extend(&self.graph.nodes[node.index()].dependencies);
            }
        }
        seen
    }
}

impl NodeId {
    fn capture(self) -> u64 {
        self.0 >> 32
    }

    pub(super) fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

impl State {
    /// Refuses an unsafe call of this thread where a capture forbids it, and spoils those captures.
    #[inline]
    pub(super) fn forbid_in_capture(&mut self) -> Result<(), Status> {
        if self.captures.active.is_empty() { Ok(()) } else { self.forbid_in_captures() }
    }

    #[cold]
    fn forbid_in_captures(&mut self) -> Result<(), Status> {
        let thread = thread::current().id();
        let mode = self.captures.mode_of(thread);
        let mut allowed = true;
        for capture in self.captures.active.iter_mut().filter(|capture| capture.forbids(thread, mode)) {
            capture.invalid = true;
            allowed = false;
        }
        if allowed { Ok(()) } else { Err(Status::CaptureUnsupported) }
    }

    /// Refuses a query or a wait for a stream that captures, whatever the modes, and spoils its capture.
    pub(super) fn forbid_on_capturing(&mut self, stream: Id) -> Result<(), Status> {
        match self.membership(stream).map(|membership| membership.capture) {
            Some(number) => {
                self.captures.spoil(number);
                Err(Status::CaptureUnsupported)
            }
            None => Ok(()),
        }
    }

    /// Refuses a wait for a device of whose streams one captures, whatever the modes.
    pub(super) fn forbid_on_capturing_device(&mut self, device: DeviceIndex) -> Result<(), Status> {
        if self.captures.active.is_empty() {
            return Ok(());
        }
        let capturing = self.streams.iter().filter(|(_, s)| s.device == device && s.capture.is_some());
        let capturing: Vec<Id> = capturing.map(|(id, _)| id).collect();
        let mut result = Ok(());
        for id in capturing {
            result = result.and(self.forbid_on_capturing(id));
        }
        result
    }

    fn membership(&self, stream: Id) -> Option<&Membership> {
        self.streams.get(stream)?.capture.as_ref()
    }

    /// Whether the stream captures, so that what was to be issued is a [node](Self::add_node).
    pub(super) fn captures(&mut self, stream: Id) -> Result<bool, Status> {
        let Some(number) = self.captured_in(stream) else { return Ok(false) };
        match self.captures.active(number) {
            Some(capture) if !capture.invalid => Ok(true),
            _ => Err(Status::CaptureInvalidated),
        }
    }

    /// The capture that a stream takes part in.
    pub(super) fn captured_in(&self, stream: Id) -> Option<u64> {
        self.membership(stream).map(|membership| membership.capture)
    }

    /// Which nodes come before what a capturing stream holds next, by their places.
    pub(super) fn captured_before(&mut self, stream: Id) -> Vec<bool> {
        let Some(Membership { capture, dependencies }) = self.membership(stream).cloned() else {
            return Vec::new();
        };
        self.captures.active(capture).map(|capture| capture.before(&dependencies)).unwrap_or_default()
    }

    /// Puts a node at the end of a stream that captures.
    pub(super) fn add_node(&mut self, stream: Id, work: NodeWork, cost_ns: u64) -> Option<NodeId> {
        let on = self.streams.get_mut(stream)?;
        let membership = on.capture.as_mut()?;
        let capture = self.captures.active(membership.capture)?;
        let added = node(capture.number, capture.graph.nodes.len());
        let dependencies = std::mem::replace(&mut membership.dependencies, vec![added]);
        let node = Arc::new(Node { dependencies, device: on.device, work, cost_ns });
        capture.graph.nodes.push(Arc::clone(&node));
        self.watch_captured(stream, added.index() as u64 + 1, &node);
        Some(added)
    }

    /// What an event stands for that is recorded on the stream, if the stream captures.
    #[inline]
    pub(super) fn captured_record(&mut self, stream: Id) -> Result<Option<Captured>, Status> {
        match self.membership(stream).cloned() {
            None => Ok(None),
            Some(membership) => self.record_captured(membership).map(Some),
        }
    }

    #[cold]
    fn record_captured(&mut self, membership: Membership) -> Result<Captured, Status> {
        match self.captures.active(membership.capture) {
            Some(capture) if !capture.invalid => Ok(Captured(membership)),
            _ => Err(Status::CaptureInvalidated),
        }
    }

    /// Makes a stream wait for an event of a capture: a fork or a join.
    pub(super) fn wait_captured(&mut self, stream: Id, event: &Captured) -> Result<(), Status> {
        let number = event.0.capture;
        let is_default = self.streams.get(stream).is_none_or(|s| s.is_default());
        let Some(capture) = self.captures.active(number) else { return Err(Status::CapturedEvent) };
        if capture.invalid {
            return Err(Status::CaptureInvalidated);
        }
        let own = self.membership(stream).map(|membership| membership.capture);
        if own.is_none() && is_default {
            self.captures.spoil(number);
            return Err(Status::CaptureUnsupported);
        }
        if let Some(other) = own.filter(|own| *own != number) {
            self.captures.spoil(number);
            self.captures.spoil(other);
            return Err(Status::CaptureMerge);
        }
        let Some(stream) = self.streams.get_mut(stream) else { return Err(Status::InvalidHandle) };
        let joined = Membership { capture: number, dependencies: Vec::new() };
        let membership = stream.capture.get_or_insert(joined);
        for node in &event.0.dependencies {
            if !membership.dependencies.contains(node) {
                membership.dependencies.push(*node);
            }
        }
        Ok(())
    }

    /// Refuses that a capturing stream waits for work that is in no capture.
    pub(super) fn forbid_outside_work(&mut self, stream: Id) -> Result<(), Status> {
        match self.membership(stream).map(|membership| membership.capture) {
            Some(number) => {
                self.captures.spoil(number);
                Err(Status::CaptureIsolation)
            }
            None => Ok(()),
        }
    }

    pub(super) fn stream_begin_capture(&mut self, on: StreamHandle, mode: CaptureMode) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        let number = self.captures.begun + 1;
        let Some(stream) = self.streams.get_mut(id) else { return Err(Status::InvalidHandle) };
        if stream.is_default() {
            return Err(Status::CaptureUnsupported);
        }
        if stream.capture.is_some() {
            return Err(Status::IllegalState);
        }
        stream.capture = Some(Membership { capture: number, dependencies: Vec::new() });
        self.captures.begun = number;
        self.captures.active.push(Capture {
            number,
            origin: id,
            thread: thread::current().id(),
            mode,
            invalid: false,
            graph: Graph { device: on.device, process: self.process, nodes: Vec::new() },
        });
        self.hold_graph_memory(number);
        Ok(())
    }

    /// Ends a capture, also where that gives no graph; but not where the stream or the thread is another than
    /// the one that began it.
    pub(super) fn stream_end_capture(&mut self, on: StreamHandle) -> Result<GraphHandle, Status> {
        let id = self.stream_id(on)?;
        let Some(membership) = self.membership(id).cloned() else { return Err(Status::IllegalState) };
        let at = self.captures.active.iter().position(|c| c.number == membership.capture);
        let at = at.ok_or(Status::IllegalState)?;
        let capture = &mut self.captures.active[at];
        if capture.origin != id {
            capture.invalid = true;
            return Err(Status::CaptureUnmatched);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != thread::current().id() {
            return Err(Status::CaptureWrongThread);
        }
        let capture = self.captures.active.remove(at);
        self.streams.iter_mut().filter(|s| s.is_in(capture.number)).for_each(|s| s.capture = None);
        let joined = capture.before(&membership.dependencies).into_iter().all(|before| before);
        if capture.invalid || !joined {
            self.drop_graph_memory(capture.number);
            self.end_nodes(capture.graph.nodes);
            return Err(if capture.invalid { Status::CaptureInvalidated } else { Status::CaptureUnjoined });
        }
        let device = capture.graph.device;
        self.captures.graphs.push((capture.number, capture.graph));
        Ok(GraphHandle { device, raw: membership.capture })
    }

    pub(super) fn capture_state(&self, on: StreamHandle) -> Result<CaptureState, Status> {
        let id = self.stream_id(on)?;
        let Some(Membership { capture: id, .. }) = self.membership(id) else { return Ok(CaptureState::None) };
        let spoilt = self.captures.active.iter().any(|capture| capture.number == *id && capture.invalid);
        Ok(if spoilt { CaptureState::Invalidated { id: *id } } else { CaptureState::Active { id: *id } })
    }

    pub(super) fn capture_info(&self, on: StreamHandle) -> Result<Option<CaptureInfo>, Status> {
        let membership = self.membership(self.stream_id(on)?);
        Ok(membership.map(|m| CaptureInfo { id: m.capture, dependencies: m.dependencies.clone() }))
    }

    pub(super) fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>, Status> {
        let graph = self.captures.graph(node.capture()).ok_or(Status::InvalidHandle)?;
        let found = graph.nodes.get(node.index()).filter(|_| graph.process == self.process);
        found.map(|node| node.dependencies.clone()).ok_or(Status::InvalidHandle)
    }

    /// The nodes of a graph.
    pub(super) fn graph(&self, graph: GraphHandle) -> Result<&[Arc<Node>], Status> {
        let found = self.captures.graphs.iter().find(|(number, _)| *number == graph.raw);
        let own = |found: &&(u64, Graph)| (found.1.device, found.1.process) == (graph.device, self.process);
        found.filter(own).map(|(_, graph)| graph.nodes.as_slice()).ok_or(Status::InvalidHandle)
    }

    pub(super) fn graph_node_count(&self, graph: GraphHandle) -> Result<usize, Status> {
        self.graph(graph).map(<[_]>::len)
    }

    pub(super) fn graph_destroy(&mut self, graph: GraphHandle) -> Result<(), Status> {
        self.graph(graph)?;
        let at = self.captures.graphs.iter().position(|(number, _)| *number == graph.raw);
        let (number, graph) = self.captures.graphs.remove(at.ok_or(Status::InvalidHandle)?);
        self.drop_graph_memory(number);
        self.end_nodes(graph.nodes);
        Ok(())
    }

    /// Changes the mode of the calling thread, and gives what it was.
    pub(super) fn exchange_capture_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let thread = thread::current().id();
        let before = self.captures.mode_of(thread);
        self.captures.modes.retain(|(of, _)| *of != thread);
        if mode != CaptureMode::Global {
            self.captures.modes.push((thread, mode));
        }
        before
    }
}

impl Membership {
    pub(super) fn is_in(&self, capture: u64) -> bool {
        self.capture == capture
    }
}
