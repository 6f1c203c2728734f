//! Stream captures.

use c10_cuda::driver::{CaptureMode, CaptureState, Driver};

use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::exports;
use crate::machine::Machine;

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn mode(number: u32) -> Outcome<CaptureMode> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(Code::INVALID_VALUE),
    }
}

const fn number(mode: CaptureMode) -> u32 {
    match mode {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    }
}

/// A stream's state, and its capture's number.
fn state(machine: &Machine, stream: Handle) -> Outcome<(u32, u64)> {
    let on = machine.stream(stream)?;
    // The legacy default stream stands for every blocking one.
    machine.refuse_legacy_question(on)?;
    Ok(match machine.sim.capture_state(on.sim)? {
        CaptureState::None => (NONE, 0),
        CaptureState::Active { id } => (ACTIVE, id),
        CaptureState::Invalidated { id } => (INVALIDATED, id),
    })
}

/// Where a program wants what a stream's capture is like.
struct Wanted {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<*const Handle>,
    edges: Out<*const ()>,
    count: Out<usize>,
}

fn info(machine: &mut Machine, stream: Handle, wanted: &Wanted) -> Outcome {
    wanted.status.check()?;
    let (status, id) = state(machine, stream)?;
    wanted.status.put(status)?;
    if status != ACTIVE {
        return Ok(());
    }
    wanted.id.put_if_wanted(id);
    wanted.graph.put_if_wanted(machine.captures.get(&id).copied().unwrap_or(Handle::NULL));
    let on = machine.stream(stream)?;
    let info = machine.sim.capture_info(on.sim)?;
    let nodes: Vec<Handle> =
        info.into_iter().flat_map(|info| info.dependencies).map(|node| Handle(node.0)).collect();
    wanted.count.put_if_wanted(nodes.len());
    // Edges are plain ones, for which CUDA gives no data.
    wanted.edges.put_if_wanted(std::ptr::null());
    if !wanted.dependencies.is_null() {
        wanted.dependencies.put(machine.keep_dependencies(stream, nodes))?;
    }
    Ok(())
}

exports! {
    Context fn cuStreamBeginCapture_v2(stream: Handle, how: u32) |machine| {
        let how = mode(how)?;
        let on = machine.stream(stream)?;
        machine.begin_capture(on, how)
    }

    GiveBack fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) |machine| {
        graph.check()?;
        let on = match machine.stream(stream) {
            Ok(on) => on,
            Err(code) => {
                // Of a lost device: the capture keeps nothing from being given back.
                machine.abandon_capture(stream);
                graph.put(Handle::NULL)?;
                return Err(code);
            }
        };
        let ended = machine.end_capture(on);
        graph.put(*ended.as_ref().unwrap_or(&Handle::NULL))?;
        ended.map(|_| ())
    }

    Context fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) |machine| {
        status.check()?;
        status.put(state(machine, stream)?.0)
    }

    Context fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<*const Handle>,
        count: Out<usize>,
    ) |machine| {
        info(machine, stream, &Wanted { status, id, graph, dependencies, edges: Out::NOT_WANTED, count })
    }

    Context fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<*const Handle>,
        edges: Out<*const ()>,
        count: Out<usize>,
    ) |machine| {
        info(machine, stream, &Wanted { status, id, graph, dependencies, edges, count })
    }

    Init fn cuThreadExchangeStreamCaptureMode(how: Out<u32>) |machine| {
        let before = machine.sim.exchange_capture_mode(mode(how.read()?)?)?;
        how.put(number(before))
    }
}
