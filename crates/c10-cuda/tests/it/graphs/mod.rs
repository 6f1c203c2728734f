//! `CudaGraph`: capture, replay, pools, and what goes wrong.
#![expect(unsafe_code, reason = "replays graphs whose memory is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod failures;
mod memory;
mod replays;

use c10_core::DataPtr;
use c10_cuda::driver::{DevicePtr, Driver, StreamHandle};
use c10_cuda::{AsStream, CaptureOptions, CudaGraph, CudaStream, Error, Result};

use crate::rig::{MIB, Rig, address};
use crate::support::{fill, launch, range};

fn kept() -> CaptureOptions {
    CaptureOptions { keep_graph: true, ..CaptureOptions::default() }
}

fn at(ptr: &DataPtr) -> DevicePtr {
    DevicePtr(address(ptr))
}

fn stream(rig: &Rig) -> CudaStream {
    CudaStream::from_pool(&rig.runtime, 0, 0).unwrap()
}

/// Issues a kernel that writes `from + by` into `to`: numbers of 8 bytes.
fn add(rig: &Rig, on: StreamHandle, to: DevicePtr, from: DevicePtr, by: u64) {
    let (reads, writes) = ([range(from, 8)], [range(to, 8)]);
    launch(&*rig.sim, on, "add", &reads, &writes, move |memory| {
        let mut bytes = [0; 8];
        memory.read(0, 0, &mut bytes);
        memory.write(0, 0, &(u64::from_le_bytes(bytes) + by).to_le_bytes());
    })
    .unwrap();
}

/// Zeroes a number, and waits.
fn zero(rig: &Rig, ptr: DevicePtr) {
    let on = StreamHandle::default_of(0);
    fill(&*rig.sim, ptr, 0, 8, on).unwrap();
    rig.sim.stream_synchronize(on).unwrap();
}

fn number(rig: &Rig, ptr: DevicePtr) -> u64 {
    let mut bytes = [0; 8];
    rig.sim.peek(ptr, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[track_caller]
fn replay(graph: &CudaGraph) -> Result<()> {
    // SAFETY: the tests keep what graphs use.
    unsafe { graph.replay() }
}

#[track_caller]
fn replay_on(graph: &CudaGraph, stream: impl AsStream) -> Result<()> {
    // SAFETY: as above.
    unsafe { graph.replay_on(stream) }
}

/// A graph that adds 1 to `counter`, by way of a temporary block of its pool.
fn counting(rig: &Rig, on: &CudaStream, options: CaptureOptions, counter: DevicePtr) -> CudaGraph {
    let captured = CudaGraph::capture(&rig.cuda, on, options, |_| {
        let temporary = rig.cuda.allocate(3 * MIB)?;
        add(rig, on.handle(), at(&temporary), counter, 1);
        add(rig, on.handle(), counter, at(&temporary), 0);
        Ok::<_, Error>(())
    });
    captured.unwrap().0
}
