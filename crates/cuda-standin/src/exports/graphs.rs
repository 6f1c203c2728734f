//! Graphs: looking at them, making them launchable, launching.

use c10_cuda::driver::{Driver, NodeId};

use crate::abi::layout::GraphUpdateInfo;
use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::exports;
use crate::machine::Machine;

/// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`, which stands for any change that is too large.
const TOPOLOGY_CHANGED: u32 = 2;

/// Fills a program's array as far as it has room, or tells how long it has to be.
fn put_handles(out: &Out<Handle>, count: &Out<usize>, handles: &[Handle]) -> Outcome {
    let room = count.read()?;
    if out.is_null() {
        return count.put(handles.len());
    }
    let fitting = &handles[..handles.len().min(room)];
    out.put_all(fitting)?;
    // What is beyond is nothing.
    count.put(fitting.len())
}

fn dependencies(machine: &Machine, node: Handle, out: &Out<Handle>, count: &Out<usize>) -> Outcome {
    let nodes = machine.sim.node_dependencies(NodeId(node.0)).map_err(|_| Code::INVALID_VALUE)?;
    let nodes: Vec<Handle> = nodes.into_iter().map(|node| Handle(node.0)).collect();
    put_handles(out, count, &nodes)
}

/// The result of an update as CUDA tells it.
fn updated(machine: &mut Machine, exec: Handle, graph: Handle) -> Outcome<u32> {
    match machine.update_exec(exec, graph) {
        Ok(()) => Ok(0),
        Err(Code::GRAPH_EXEC_UPDATE_FAILURE) => Ok(TOPOLOGY_CHANGED),
        Err(code) => Err(code),
    }
}

exports! {
    Init fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) |machine| {
        let found = machine.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?;
        let all: Vec<Handle> = found.nodes.keys().map(|&node| Handle(node)).collect();
        put_handles(&nodes, &count, &all)
    }

    Init fn cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) |machine| {
        let found = machine.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?;
        let roots = found.nodes.iter().filter(|(_, dependencies)| dependencies.is_empty());
        let roots: Vec<Handle> = roots.map(|(&node, _)| Handle(node)).collect();
        put_handles(&nodes, &count, &roots)
    }

    Init fn cuGraphNodeGetDependencies(node: Handle, nodes: Out<Handle>, count: Out<usize>) |machine| {
        dependencies(machine, node, &nodes, &count)
    }

    /// Edges are plain ones: their data, where it is wanted, is zero.
    Init fn cuGraphNodeGetDependencies_v2(
        node: Handle,
        nodes: Out<Handle>,
        edges: Out<u64>,
        count: Out<usize>,
    ) |machine| {
        dependencies(machine, node, &nodes, &count)?;
        if !edges.is_null() && !nodes.is_null() {
            edges.put_all(&vec![0; count.read()?])?;
        }
        Ok(())
    }

    Init fn cuGraphNodeGetDependentNodes(node: Handle, nodes: Out<Handle>, count: Out<usize>) |machine| {
        put_handles(&nodes, &count, &machine.dependent_nodes(NodeId(node.0))?)
    }

    Init fn cuGraphDestroy(graph: Handle) |machine| { machine.destroy_graph(graph) }

    Context fn cuGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, flags: u64) |machine| {
        exec.check()?;
        exec.put(machine.instantiate(graph, flags)?)
    }

    Init fn cuGraphExecGetFlags(exec: Handle, flags: Out<u64>) |machine| {
        let of = machine.exec(exec)?.flags;
        flags.put(of)
    }

    Context fn cuGraphExecUpdate(exec: Handle, graph: Handle, node: Out<Handle>, result: Out<u32>) |machine| {
        result.check()?;
        let told = updated(machine, exec, graph)?;
        node.put_if_wanted(Handle::NULL);
        result.put(told)?;
        if told == 0 { Ok(()) } else { Err(Code::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    Context fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, result: Out<GraphUpdateInfo>) |machine| {
        result.check()?;
        let told = updated(machine, exec, graph)?;
        result.put(GraphUpdateInfo { result: told, error_node: 0, error_from_node: 0 })?;
        if told == 0 { Ok(()) } else { Err(Code::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    Context fn cuGraphUpload(exec: Handle, stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        let sim = machine.exec(exec)?.sim;
        Ok(machine.sim.graph_upload(sim, on.sim)?)
    }

    Context fn cuGraphLaunch(exec: Handle, stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.launch_exec(exec, on)
    }

    Init fn cuGraphExecDestroy(exec: Handle) |machine| { machine.destroy_exec(exec) }
}
