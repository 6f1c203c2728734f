//! Launchable graphs: made of what a capture recorded, launched any number of times.
//!
//! A launch is one item of its stream. Within it each node runs behind those that it depends on, one node at a time,
//! and work of other streams may run between them. What a launch does is settled when it is issued: the graph, and
//! what it was made launchable as, may be changed or end after that.

use std::sync::Arc;

use c10_core::DeviceIndex;

use super::event::{Record, Recorded};
use super::graph_run::{GraphRun, RunNode};
use super::host_bytes::{HostPlace, HostRange};
use super::node::{Node, NodeWork};
use super::process::ProcessId;
use super::slab::{Id, Slab};
use super::state::State;
use super::work::Item;
use crate::driver::{GraphExecHandle, GraphHandle, Status, StreamHandle};

/// A graph that can be launched.
#[derive(Debug)]
pub(super) struct Exec {
    device: DeviceIndex,
    process: ProcessId,
    /// The graph that it was made of, by number.
    graph: u64,
    nodes: Vec<Arc<Node>>,
    /// The last launch: its stream, and its place there.
    last: Option<(Id, u64)>,
}

/// The launchable graphs of a machine.
pub(super) type Execs = Slab<Exec>;

/// How a launch lies in virtual time.
struct Span {
    /// When each node is over, from the begin of the launch on.
    ends: Vec<u64>,
    all: u64,
}

impl Span {
    fn of(nodes: &[Arc<Node>]) -> Self {
        let mut ends: Vec<u64> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let begin = node.dependencies.iter().filter_map(|before| ends.get(before.index())).max();
            ends.push(begin.copied().unwrap_or(0).saturating_add(node.cost_ns));
        }
        let all = ends.iter().copied().max().unwrap_or(0);
        Self { ends, all }
    }
}

impl State {
    fn exec_id(&self, handle: GraphExecHandle) -> Result<Id, Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        match self.execs.get(id) {
            Some(exec) if (exec.device, exec.process) == (handle.device, self.process) => Ok(id),
            _ => Err(Status::InvalidHandle),
        }
    }

    pub(super) fn graph_instantiate(&mut self, graph: GraphHandle) -> Result<GraphExecHandle, Status> {
        let nodes = self.graph(graph)?.to_vec();
        // The addresses of a graph are one launchable graph's at a time.
        let has_memory = nodes.iter().any(|node| node.work.is_memory());
        if has_memory && self.execs.iter().any(|(_, exec)| exec.graph == graph.raw) {
            return Err(Status::NotSupported);
        }
        let exec = Exec { device: graph.device, process: self.process, graph: graph.raw, nodes, last: None };
        let id = self.execs.insert(exec).ok_or(Status::OutOfMemory)?;
        self.hold_graph_memory(graph.raw);
        Ok(GraphExecHandle { device: graph.device, raw: id.raw() })
    }

    pub(super) fn graph_exec_update(
        &mut self,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<(), Status> {
        let id = self.exec_id(exec)?;
        let new = self.graph(graph)?.to_vec();
        let exec = self.execs.get_mut(id).ok_or(Status::InvalidHandle)?;
        let alike = exec.nodes.len() == new.len()
            && exec.nodes.iter().zip(&new).all(|(old, new)| old.is_like(new) && !new.work.is_memory());
        if !alike {
            return Err(Status::GraphUpdateFailure);
        }
        let old = std::mem::replace(&mut exec.nodes, new);
        self.end_nodes(old);
        Ok(())
    }

    pub(super) fn graph_upload(&mut self, exec: GraphExecHandle, on: StreamHandle) -> Result<(), Status> {
        let id = self.exec_id(exec)?;
        let stream = self.stream_id(on)?;
        self.forbid_on_capturing(stream)?;
        self.forbid_implicit_order(stream)?;
        let nodes = self.execs.get(id).ok_or(Status::InvalidHandle)?.nodes.clone();
        self.back_graph_memory(&nodes)?;
        self.order_with_default(stream)?;
        self.issue(stream, Item::Upload, 0, 0);
        Ok(())
    }

    pub(super) fn graph_exec_destroy(&mut self, exec: GraphExecHandle) -> Result<(), Status> {
        let id = self.exec_id(exec)?;
        let exec = self.execs.remove(id).ok_or(Status::InvalidHandle)?;
        self.watch(|races| races.graph_ended(id));
        self.drop_graph_memory(exec.graph);
        self.end_nodes(exec.nodes);
        Ok(())
    }

    /// Issues a launch; `claim` promises that the host's memory that its copies use is there until they have run.
    pub(super) fn graph_launch(
        &mut self,
        exec: GraphExecHandle,
        on: StreamHandle,
        claim: &dyn Fn(HostPlace) -> HostRange,
    ) -> Result<(), Status> {
        let id = self.exec_id(exec)?;
        let stream = self.stream_id(on)?;
        if self.captures(stream)? {
            // Differs from CUDA, where the graph becomes a node of the other.
            return Err(Status::NotSupported);
        }
        let Exec { graph, nodes, last, .. } = self.execs.get(id).ok_or(Status::InvalidHandle)?;
        let (graph, nodes, last) = (*graph, nodes.clone(), *last);
        if nodes.iter().any(|node| matches!(node.work, NodeWork::Record(event) if !self.is_event(event))) {
            return Err(Status::InvalidValue);
        }
        self.check_graph_memory(&nodes)?;
        self.forbid_implicit_order(stream)?;
        self.back_graph_memory(&nodes)?;
        // Nothing fails from here on.
        self.order_with_default(stream)?;
        if let Some((on, place)) = last.filter(|(on, place)| *on != stream && !self.has_run(*on, *place)) {
            self.issue(stream, Item::Wait { stream: on, place }, 0, self.free_at(on));
        }
        self.free_what_is_left(&nodes, stream);
        let place = self.next_place(stream);
        let run = self.settle_launch(&nodes, (stream, on, place), id, claim);
        let span = Span::of(&nodes);
        self.hold_graph_memory(graph);
        let (_, end) = self.issue(stream, Item::Graph(Box::new(GraphRun::new(graph, run))), span.all, 0);
        self.record_events(&nodes, &span, Recorded { stream, place, end_ns: end.saturating_sub(span.all) });
        if let Some(exec) = self.execs.get_mut(id) {
            exec.last = Some((stream, place));
        }
        Ok(())
    }

    /// Brings the graph's memory to life and to its end, node by node, and tells the detector of each.
    fn settle_launch(
        &mut self,
        nodes: &[Arc<Node>],
        (stream, on, place): (Id, StreamHandle, u64),
        exec: Id,
        claim: &dyn Fn(HostPlace) -> HostRange,
    ) -> Vec<RunNode> {
        let mut clocks = self.races.as_mut().map(|races| races.graph_begins(exec, stream, on.device));
        let mut run = Vec::with_capacity(nodes.len());
        for node in nodes {
            let bytes = self.settle_memory(&node.work);
            self.watch_node(clocks.as_mut(), node, bytes, (stream, place));
            run.push(RunNode {
                before: node.dependencies.iter().map(|before| before.index()).collect(),
                device: node.device,
                item: Some(node.work.item(claim)),
                name: node.work.name(),
                issued_at: self.memory.births,
            });
            self.settle_end(&node.work, (stream, place));
        }
        if let (Some(clocks), Some(races)) = (clocks, &mut self.races) {
            races.graph_ends(clocks, stream, on.device);
        }
        run
    }

    /// The events that a launch records stand for the launch from its issue on.
    fn record_events(&mut self, nodes: &[Arc<Node>], span: &Span, begin: Recorded) {
        for (node, end) in nodes.iter().zip(&span.ends) {
            if let NodeWork::Record(event) = node.work
                && let Some(event) = self.events.get_mut(event)
            {
                let end_ns = begin.end_ns.saturating_add(*end);
                event.recorded = Some(Record::Eager(Recorded { end_ns, ..begin }));
            }
        }
    }

    /// Lets nodes go. What they own is dropped when the lock is not held.
    pub(super) fn end_nodes(&mut self, nodes: Vec<Arc<Node>>) {
        for node in &nodes {
            if let NodeWork::Kernel(kernel) = &node.work {
                self.leave_kernel(node.device, kernel);
            }
        }
    }
}
