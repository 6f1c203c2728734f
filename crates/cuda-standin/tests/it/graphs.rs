//! Graphs: made launchable, launched again and again, and made to do what another graph does.

use crate::kernels::{get, launch_fill, load};
use crate::rig::{INVALID_VALUE, Rig, SUCCESS, call};

const GRAPH_EXEC_UPDATE_FAILURE: u32 = 910;

fn captured(stream: u64, work: impl FnOnce()) -> u64 {
    assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 1 => u32)), SUCCESS);
    work();
    let mut graph = 0;
    assert_eq!(call!(cuStreamEndCapture(stream => u64, &mut graph => *mut u64)), SUCCESS);
    graph
}

fn instantiate(graph: u64) -> u64 {
    let mut exec = 0;
    let made = call!(cuGraphInstantiateWithFlags(&mut exec => *mut u64, graph => u64, 1 => u64));
    assert_eq!(made, SUCCESS);
    exec
}

fn end(execs: &[u64], graphs: &[u64]) {
    for exec in execs {
        assert_eq!(call!(cuGraphExecDestroy(*exec => u64)), SUCCESS);
        assert_eq!(call!(cuGraphExecDestroy(*exec => u64)), INVALID_VALUE);
    }
    for graph in graphs {
        assert_eq!(call!(cuGraphDestroy(*graph => u64)), SUCCESS);
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Default)]
struct Update {
    result: u32,
    nodes: [u64; 2],
}

#[test]
fn a_graph_runs_each_time_it_is_launched() {
    for rig in [Rig::new, Rig::manual].map(|new| move || new(1)) {
        let rig = rig();
        let (stream, ptr) = (rig.stream(), rig.malloc(64));
        let module = load("tensorplay host kernels 1\nfill_u32 8 4 8\nadd_f32 8 8 8 8\n").1;
        let fill = get(module, "fill_u32").1;
        let graph = captured(stream, || {
            assert_eq!(launch_fill(fill, stream, ptr, 3, 8), SUCCESS);
            assert_eq!(
                call!(cuMemcpyDtoDAsync_v2(ptr + 32 => u64, ptr => u64, 32 => usize, stream => u64)),
                SUCCESS
            );
        });
        let exec = instantiate(graph);
        for round in 0..3u8 {
            rig.upload(ptr, &[round; 64]);
            assert_eq!(call!(cuGraphLaunch(exec => u64, stream => u64)), SUCCESS);
            assert_eq!(call!(cuStreamSynchronize(stream => u64)), SUCCESS);
            assert_eq!(rig.download(ptr, 64), [3, 0, 0, 0].repeat(16));
        }
        assert_eq!(call!(cuGraphLaunch(graph => u64, stream => u64)), INVALID_VALUE);
        end(&[exec], &[graph]);
        assert_eq!(call!(cuGraphLaunch(exec => u64, stream => u64)), INVALID_VALUE);
        assert_eq!(call!(cuModuleUnload(module => u64)), SUCCESS);
        rig.end_stream(stream);
        rig.free(ptr);
    }
}

#[test]
fn a_launchable_graph_takes_another_of_its_shape() {
    let rig = Rig::new(1);
    let (stream, ptr) = (rig.stream(), rig.malloc(64));
    let fill = |value: u8| {
        let issued = call!(cuMemsetD8Async(ptr => u64, value => u8, 64 => usize, stream => u64));
        assert_eq!(issued, SUCCESS);
    };
    let one = captured(stream, || fill(1));
    let two = captured(stream, || fill(2));
    let longer = captured(stream, || {
        fill(3);
        fill(4);
    });
    let exec = instantiate(one);
    let update = |graph: u64, told: &mut Update| call!(cuGraphExecUpdate_v2(exec => u64, graph => u64, told => *mut Update));
    let mut told = Update { result: 9, nodes: [9; 2] };
    assert_eq!(update(two, &mut told), SUCCESS);
    assert_eq!(told.result, 0);
    assert_eq!(update(longer, &mut told), GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!((told.result, told.nodes), (2, [0; 2]));
    assert_eq!(call!(cuGraphUpload(exec => u64, stream => u64)), SUCCESS);
    assert_eq!(call!(cuGraphLaunch(exec => u64, stream => u64)), SUCCESS);
    assert_eq!(rig.download(ptr, 64), [2; 64]);
    end(&[exec], &[one, two, longer]);
    rig.end_stream(stream);
    rig.free(ptr);
}
