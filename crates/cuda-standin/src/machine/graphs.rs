//! Captures, the graphs that they give, and graphs that can be launched.

use std::collections::{BTreeMap, BTreeSet};

use c10_cuda::driver::{CaptureMode, Driver, GraphExecHandle, GraphHandle, NodeId};

use super::{Machine, OnStream};
use crate::abi::{Code, Handle, Outcome};

/// A graph that a capture gave.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) sim: GraphHandle,
    /// What each node depends on, in the order in which they were made.
    pub(crate) nodes: BTreeMap<u64, Vec<NodeId>>,
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) context: Handle,
    pub(crate) sim: GraphExecHandle,
    pub(crate) flags: u64,
}

impl Machine {
    pub(crate) fn begin_capture(&mut self, on: OnStream, mode: CaptureMode) -> Outcome {
        self.sim.stream_begin_capture(on.sim, mode)?;
        if let Some(info) = self.sim.capture_info(on.sim)? {
            self.captures.insert(info.id, Handle::next());
        }
        Ok(())
    }

    pub(crate) fn end_capture(&mut self, on: OnStream) -> Outcome<Handle> {
        let info = self.sim.capture_info(on.sim)?;
        let nodes = match &info {
            Some(info) => self.nodes_before(&info.dependencies)?,
            None => BTreeMap::new(),
        };
        let ended = self.sim.stream_end_capture(on.sim);
        let Some(info) = info else { return Err(ended.err().map_or(Code::ILLEGAL_STATE, Code::from)) };
        // A capture that fails may have ended all the same.
        let over = ended.is_ok() || self.sim.capture_info(on.sim)?.is_none();
        let handle = if over { self.captures.remove(&info.id) } else { None };
        let sim = ended?;
        let handle = handle.unwrap_or_else(Handle::next);
        self.graphs.insert_as(handle, Graph { sim, nodes });
        Ok(handle)
    }

    /// Ends the capture that began on a stream, if one did, and its graph: the stream's context ends, or is lost.
    pub(crate) fn abandon_capture(&mut self, stream: Handle) {
        let Ok(on) = self.stream_even_if_lost(stream) else { return };
        if self.is_capturing(on) == Ok(true)
            && let Ok(graph) = self.end_capture(on)
        {
            let _gone = self.destroy_graph(graph);
        }
    }

    /// All nodes that come before some, and those.
    fn nodes_before(&self, ends: &[NodeId]) -> Outcome<BTreeMap<u64, Vec<NodeId>>> {
        let mut nodes = BTreeMap::new();
        let mut todo = ends.to_vec();
        while let Some(node) = todo.pop() {
            if nodes.contains_key(&node.0) {
                continue;
            }
            let dependencies = self.sim.node_dependencies(node)?;
            todo.extend(&dependencies);
            nodes.insert(node.0, dependencies);
        }
        Ok(nodes)
    }

    pub(crate) fn destroy_graph(&mut self, graph: Handle) -> Outcome {
        let sim = self.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?.sim;
        self.sim.graph_destroy(sim)?;
        self.graphs.remove(graph)?;
        Ok(())
    }

    pub(crate) fn instantiate(&mut self, graph: Handle, flags: u64) -> Outcome<Handle> {
        const KNOWN: u64 = 0xf;
        const AUTO_FREE_ON_LAUNCH: u64 = 1;
        const DEVICE_LAUNCH: u64 = 4;
        // What a device is to launch cannot have memory of its own freed.
        let both = AUTO_FREE_ON_LAUNCH | DEVICE_LAUNCH;
        if flags & !KNOWN != 0 || flags & both == both {
            return Err(Code::INVALID_VALUE);
        }
        let (context, _) = self.current_context()?;
        let sim = self.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?.sim;
        let sim = self.sim.graph_instantiate(sim)?;
        Ok(self.execs.insert(Exec { context, sim, flags }))
    }

    pub(crate) fn exec(&self, exec: Handle) -> Outcome<&Exec> {
        self.execs.get(exec).map_err(|_| Code::INVALID_VALUE)
    }

    pub(crate) fn update_exec(&mut self, exec: Handle, graph: Handle) -> Outcome {
        let exec = self.exec(exec)?.sim;
        let graph = self.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?.sim;
        Ok(self.sim.graph_exec_update(exec, graph)?)
    }

    pub(crate) fn launch_exec(&mut self, exec: Handle, on: OnStream) -> Outcome {
        let sim = self.exec(exec)?.sim;
        self.before_work(on)?;
        self.graph_launch_promised(sim, on.sim)
    }

    pub(crate) fn destroy_exec(&mut self, exec: Handle) -> Outcome {
        let sim = self.exec(exec)?.sim;
        self.sim.graph_exec_destroy(sim)?;
        self.execs.remove(exec)?;
        Ok(())
    }

    /// The nodes that depend on one of a graph.
    pub(crate) fn dependent_nodes(&self, node: NodeId) -> Outcome<Vec<Handle>> {
        let (_, graph) = self
            .graphs
            .iter()
            .find(|(_, graph)| graph.nodes.contains_key(&node.0))
            .ok_or(Code::INVALID_VALUE)?;
        let depends = graph.nodes.iter().filter(|(_, dependencies)| dependencies.contains(&node));
        Ok(depends.map(|(&node, _)| Handle(node)).collect::<BTreeSet<_>>().into_iter().collect())
    }
}
