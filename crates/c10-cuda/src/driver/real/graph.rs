#![expect(unsafe_code, reason = "calls the driver with graphs that the book has")]
//! Graphs, and what is launched of them. CUDA does not guard these objects: no two calls use one at a time.

use std::ptr;

use c10_core::DeviceIndex;

use super::abi::{self, CUgraph, CUgraphExec};
use super::books::same;
use super::driver::RealDriver;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{GraphExecHandle, GraphHandle, Status, StreamHandle};
use crate::sync::lock;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// A graph in the book.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) device: DeviceIndex,
}

/// A launchable graph in the book.
#[derive(Debug)]
pub(super) struct GraphExec {
    device: DeviceIndex,
}

impl RealDriver {
    /// Calls `call` with a live graph that no other call uses, in the context of its device.
    pub(super) fn alone_on_graph<R>(
        &self,
        graph: GraphHandle,
        call: impl FnOnce(&Symbols, CUgraph) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.graphs.alone(graph.raw, |known| {
            same(known.device, graph.device)?;
            self.on(graph.device, |symbols, _| call(symbols, abi::pointer(graph.raw)))
        })
    }

    fn alone_on_exec<R>(
        &self,
        exec: GraphExecHandle,
        call: impl FnOnce(CUgraphExec) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.execs.alone(exec.raw, |known| {
            same(known.device, exec.device)?;
            call(abi::pointer(exec.raw))
        })
    }

    pub(super) fn count_nodes(&self, graph: GraphHandle) -> Result<usize, Status> {
        self.alone_on_graph(graph, |symbols, graph| {
            let mut count = 0;
            // SAFETY: the graph is live, and null asks for the number alone.
            check(unsafe { (symbols.graph_get_nodes)(graph, ptr::null_mut(), &mut count) })?;
            Ok(count)
        })
    }

    pub(super) fn destroy_graph(&self, graph: GraphHandle) -> Result<(), Status> {
        let mut captures = lock(&self.captures);
        self.graphs.end(graph.raw, |known| {
            same(known.device, graph.device)?;
            self.on(graph.device, |symbols, _| {
                // SAFETY: the graph is live, and no call uses it or its nodes.
                check(unsafe { (symbols.graph_destroy)(abi::pointer(graph.raw)) })
            })
        })?;
        captures.forget_graph(graph);
        Ok(())
    }

    pub(super) fn instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle, Status> {
        let device = graph.device;
        let raw = self.alone_on_graph(graph, |symbols, graph| {
            let mut exec: CUgraphExec = ptr::null_mut();
            // SAFETY: the graph is live, and there is room for what is made of it.
            check(unsafe { (symbols.graph_instantiate)(&mut exec, graph, AUTO_FREE_ON_LAUNCH) })?;
            Ok(abi::number(exec))
        })?;
        self.execs.insert(raw, GraphExec { device });
        Ok(GraphExecHandle { device, raw })
    }

    pub(super) fn update_exec(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<(), Status> {
        self.alone_on_exec(exec, |exec| {
            self.alone_on_graph(graph, |symbols, graph| {
                let (mut node, mut why) = (ptr::null_mut(), 0);
                // SAFETY: both are live, and there is room for the node and the reason that it may tell.
                check(unsafe { (symbols.graph_exec_update)(exec, graph, &mut node, &mut why) })
            })
        })
    }

    pub(super) fn upload_exec(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<(), Status> {
        self.alone_on_exec(exec, |exec| {
            self.on_stream(stream, |symbols, stream| {
                // SAFETY: both are live.
                check(unsafe { (symbols.graph_upload)(exec, stream) })
            })
        })
    }

    /// # Safety
    /// As [`Driver::graph_launch`](crate::driver::Driver::graph_launch).
    pub(super) unsafe fn launch_exec(
        &self,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<(), Status> {
        self.alone_on_exec(exec, |exec| {
            self.on_stream(stream, |symbols, stream| {
                // SAFETY: both are live, and the caller keeps what the nodes use valid.
                check(unsafe { (symbols.graph_launch)(exec, stream) })
            })
        })
    }

    pub(super) fn destroy_exec(&self, exec: GraphExecHandle) -> Result<(), Status> {
        self.execs.end(exec.raw, |known| {
            same(known.device, exec.device)?;
            self.on(exec.device, |symbols, _| {
                // SAFETY: it is live, and no call uses it.
                check(unsafe { (symbols.graph_exec_destroy)(abi::pointer(exec.raw)) })
            })
        })
    }
}
