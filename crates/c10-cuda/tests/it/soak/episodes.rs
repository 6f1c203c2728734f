//! Operations of several steps: a pool that sleeps, a graph that is captured and replayed.
#![expect(
    unsafe_code,
    reason = "no block of a pool that sleeps is used, and graphs are done before their blocks end"
)]

use c10_core::{DeviceType, Stream};
use c10_cuda::alloc::{MemPool, MemPoolOptions, SuspendedContents};
use c10_cuda::driver::{CaptureMode, DevicePtr};
use c10_cuda::{CaptureOptions, CudaGraph, Error, ErrorKind};

use super::worker::Worker;
use crate::rig::{MIB, address};
use crate::support::{fill, read};

impl Worker {
    /// Makes a pool, lets it sleep and wakes it, and looks whether what was kept is there again.
    pub(crate) fn sleep(&mut self) {
        let shared = self.shared.clone();
        let device = self.device();
        let stream = Stream::default_of(DeviceType::Cuda, device);
        let on = shared.handle(stream);
        let pool =
            MemPool::new(&shared.cuda, device, MemPoolOptions::default()).expect("the device is there");
        shared.cuda.set_pool_expandable(device, pool.id()).expect("nothing is in it");
        let mut blocks = Vec::new();
        for value in 1..=1 + self.rng.below(3) as u8 {
            let bytes = 16 + self.rng.below(5 * MIB);
            let made = pool.with(|| shared.cuda.allocate_on(bytes, stream)).expect("nobody else enters it");
            let Ok(ptr) = made.inspect_err(is_shortage) else { return };
            fill(&*shared.sim, DevicePtr(address(&ptr)), value, bytes, on).expect("issued");
            blocks.push((ptr, value));
        }
        let keeps = self.rng.below(2) == 0;
        let contents = if keeps { SuspendedContents::Kept } else { SuspendedContents::Discarded };
        // SAFETY: nobody else knows the blocks, and they are used when the pool is awake again.
        unsafe { pool.suspend(contents) }.expect("nothing is captured");
        blocks.swap_remove(self.rng.place(blocks.len()));
        if let Err(error) = pool.resume() {
            is_shortage(&error);
            assert!(shared.cuda.is_pool_suspended(device, pool.id()).expect("it is there"));
            return;
        }
        for (ptr, value) in blocks.iter().filter(|_| keeps) {
            assert_eq!(read(&*shared.sim, DevicePtr(address(ptr)), 16, on), [*value; 16]);
        }
    }

    /// Captures a graph that allocates, while blocks from before are freed, and replays it.
    pub(crate) fn capture(&mut self) {
        // A capture is in the way of what others ask of the driver.
        let stream = self.stream();
        if !self.is_alone || stream == Stream::default_of(DeviceType::Cuda, stream.device_index()) {
            return;
        }
        let shared = self.shared.clone();
        let on = shared.handle(stream);
        let options = CaptureOptions { mode: CaptureMode::ThreadLocal, ..CaptureOptions::default() };
        let captured = CudaGraph::capture(&shared.cuda, stream, options, |_| {
            let mut blocks = Vec::new();
            for value in 1..=3 {
                let bytes = 16 + self.rng.below(3 * MIB);
                let ptr = shared.cuda.allocate_on(bytes, stream)?;
                fill(&*shared.sim, DevicePtr(address(&ptr)), value, bytes, on)?;
                blocks.push((ptr, value));
                self.free();
            }
            blocks.swap_remove(0);
            Ok::<_, Error>(blocks)
        });
        let Ok((graph, blocks)) = captured.inspect_err(is_shortage) else { return };
        for _ in 0..2 {
            // SAFETY: the blocks are there until the graph is done.
            unsafe { graph.replay_on(stream) }.expect("launched");
            for (ptr, value) in &blocks {
                assert_eq!(read(&*shared.sim, DevicePtr(address(ptr)), 16, on), [*value; 16]);
            }
        }
        shared.sim.complete_stream(on);
    }

    /// Makes a stream wait for another, and lets it use again what that one used.
    pub(crate) fn wait_stream(&mut self) {
        let (waiting, waited) = (self.stream(), self.stream());
        self.shared.cuda.wait_stream(waiting, waited).expect("they are streams of the program");
    }
}

fn is_shortage(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
}
