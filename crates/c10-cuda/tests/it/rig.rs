//! A simulated machine with an allocator on it: what most tests begin with.

use std::sync::Arc;

use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, Driver, StreamHandle};
use c10_cuda::{
    AsStream, CachingAllocator, CaptureOptions, Config, CudaGraph, DeviceStats, GraphCapture, Result, Runtime,
};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// The first address of device 0.
pub(crate) const BASE: u64 = 1 << 52;

/// A machine, its streams, an allocator.
pub(crate) struct Rig {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) runtime: Runtime,
    pub(crate) cuda: CachingAllocator,
    // Looks when all else has ended.
    pub(crate) watch: Watch,
}

/// Stops the test where the program of a machine has raced, or has misused memory.
pub(crate) struct Watch(Arc<SimDriver>);

impl Watch {
    pub(crate) fn new(sim: &Arc<SimDriver>) -> Self {
        Self(Arc::clone(sim))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let races = self.0.races();
            let texts: Vec<_> = races.iter().map(ToString::to_string).collect();
            assert!(races.is_empty(), "{}", texts.join("\n"));
        }
    }
}

impl Rig {
    /// One device of `bytes` bytes, and an allocator as PyTorch has it by default.
    pub(crate) fn new(bytes: u64) -> Self {
        Self::with_config(SimConfig::with_bytes(bytes), Config::default())
    }

    /// The same with settings in their text form.
    pub(crate) fn with(bytes: u64, settings: &str) -> Self {
        Self::with_config(SimConfig::with_bytes(bytes), Config::parse(settings).unwrap())
    }

    pub(crate) fn with_config(machine: SimConfig, config: Config) -> Self {
        Self::unwatched(machine.race_detector(), config)
    }

    /// One whose allocator takes the short ways that it does not where a race detector looks on.
    pub(crate) fn unwatched(machine: SimConfig, config: Config) -> Self {
        let sim = SimDriver::new(machine.log_calls(10_000));
        let runtime = Runtime::new(Arc::clone(&sim) as Arc<dyn Driver>);
        let cuda = CachingAllocator::with_runtime(runtime.clone(), config).unwrap();
        let watch = Watch::new(&sim);
        Self { sim, runtime, cuda, watch }
    }

    /// A capture into a pool, whose graph is kept as it was recorded.
    pub(crate) fn begin_capture(
        &self,
        stream: impl AsStream,
        pool: MempoolId,
        mode: CaptureMode,
    ) -> Result<GraphCapture<'_>> {
        CudaGraph::begin(
            &self.cuda,
            stream,
            CaptureOptions { mode, keep_graph: true, ..CaptureOptions::in_pool(pool) },
        )
    }

    #[track_caller]
    pub(crate) fn allocate(&self, bytes: u64) -> DataPtr {
        self.cuda.allocate(bytes).unwrap()
    }

    /// The next stream of device 0's pool.
    pub(crate) fn stream(&self) -> Stream {
        self.runtime.stream_from_pool(0, 0).unwrap()
    }

    pub(crate) fn handle(&self, stream: Stream) -> StreamHandle {
        self.runtime.handle(stream).unwrap()
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        self.cuda.device_stats(0).unwrap()
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.cuda.memory_reserved(0).unwrap()
    }

    /// Bytes that the driver has given out on device 0.
    pub(crate) fn driver_used(&self) -> u64 {
        let info = self.sim.memory_info(0).unwrap();
        info.total - info.free
    }

    /// The driver's `malloc`s and `free`s since the last call: `+bytes`, `-place`, `!bytes` for a failed one.
    pub(crate) fn memory_calls(&self) -> Vec<String> {
        let calls = self.sim.take_calls().into_iter();
        calls
            .filter_map(|call| match (call.name, call.status) {
                ("malloc", None) => Some(format!("+{}", call.bytes)),
                ("malloc", Some(_)) => Some(format!("!{}", call.bytes)),
                ("free", None) => Some(format!("-{}", call.ptr.0 - BASE)),
                _ => None,
            })
            .collect()
    }
}

/// Bytes from the first address of device 0.
pub(crate) fn place(ptr: &DataPtr) -> u64 {
    address(ptr) - BASE
}

pub(crate) fn address(ptr: &DataPtr) -> u64 {
    ptr.as_ptr().addr() as u64
}
