#![expect(unsafe_code, reason = "gives back by hand what the raw calls gave out")]
//! What is timed of the device allocator: the programs of `xtask/oracle/torch_bench.cpp`, step for step.
//!
//! All of them run on a simulated device whose call log is off. Its driver calls cost a few map operations and
//! are rare: what is timed is the allocator.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::History;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, StreamHandle};
use c10_cuda::{CachingAllocator, Config};

use crate::mt19937::Mt19937;

/// How many blocks a mix holds.
pub const LIVE: usize = 1000;
/// The steps of a mix before it repeats.
pub const MIX_STEPS: usize = 100_000;
/// The sizes of the hot cases, in bytes.
pub const HOT_BYTES: [u64; 6] = [512, 4096, 65_536, 1 << 20, 8 << 20, 64 << 20];
/// The mixes: name, smallest and largest size in bytes.
pub const MIXES: [(&str, u64, u64); 2] =
    [("512 B to 1 MiB", 512, 1 << 20), ("512 B to 64 MiB", 512, 64 << 20)];
/// The entries of a step's history: the allocation, and the free's two.
pub const STEP_EVENTS: u64 = 3;
/// How many threads allocate at one time.
pub const THREADS: [usize; 3] = [1, 2, 4];
/// The size of the blocks that a second stream uses, in bytes.
pub const RECORDED_BYTES: u64 = 65_536;

/// By which calls memory is asked for and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// `raw_alloc` and `raw_delete`, as `torch_bench` does.
    Raw,
    /// `allocate`, and the end of the `DataPtr`.
    Owned,
}

/// An allocator with an empty cache on a device of 80 GiB, and its driver.
#[derive(Debug)]
pub struct Machine {
    driver: Arc<SimDriver>,
    allocator: CachingAllocator,
}

impl Machine {
    /// A new one.
    pub fn new() -> Self {
        let driver = SimDriver::new(SimConfig::default());
        let allocator =
            CachingAllocator::new(driver.clone(), Config::default()).expect("the defaults are valid");
        Self { driver, allocator }
    }

    /// Allocates and frees.
    #[inline]
    pub fn pair(&self, bytes: u64, calls: Calls) {
        drop(self.allocate(bytes, calls));
    }

    /// Records the last `entries` entries of its history from here on, without stacks and times.
    pub fn record_history(&self, entries: usize) {
        self.allocator.record_history(Some(History { max_entries: entries, ..History::default() }));
    }

    /// A stream of the pool, and the driver's name for it.
    pub fn stream(&self) -> (Stream, StreamHandle) {
        let runtime = self.allocator.runtime();
        let stream = runtime.stream_from_pool(0, 0).expect("device 0 has a pool of streams");
        (stream, runtime.handle(stream).expect("it is of this runtime"))
    }

    /// Allocates, says that `stream` uses the memory, and frees.
    #[inline]
    pub fn recorded_pair(&self, stream: Stream) {
        let ptr = self.allocator.allocate(RECORDED_BYTES).expect("80 GiB are enough");
        self.allocator.record_stream(&ptr, stream).expect("both are of this runtime");
    }

    /// Completes what a stream holds.
    #[inline]
    pub fn complete(&self, stream: StreamHandle) {
        self.driver.complete_stream(stream);
    }

    #[inline]
    fn allocate(&self, bytes: u64, calls: Calls) -> Block<'_> {
        match calls {
            Calls::Raw => {
                let ptr = self.allocator.raw_alloc(bytes).expect("80 GiB are enough");
                Block::Raw(&self.allocator, ptr)
            }
            Calls::Owned => {
                let ptr = self.allocator.allocate(bytes).expect("80 GiB are enough");
                Block::Owned { _ends: ptr }
            }
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory that is given back at its end.
#[derive(Debug)]
enum Block<'a> {
    Raw(&'a CachingAllocator, DevicePtr),
    Owned { _ends: DataPtr },
}

impl Drop for Block<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Self::Raw(allocator, ptr) = self {
            // SAFETY: `allocate` got it from this allocator, and this is its only end; no work uses it.
            unsafe { allocator.raw_delete(*ptr) }.expect("it is the allocator's own");
        }
    }
}

/// Random replacement among [`LIVE`] blocks: a step frees the block of one slot and puts one of another size
/// there. Sizes are spread evenly over the logarithm.
#[derive(Debug)]
pub struct Mix<'a> {
    machine: &'a Machine,
    calls: Calls,
    steps: Vec<(usize, u64)>,
    live: Vec<Option<Block<'a>>>,
    at: usize,
}

impl<'a> Mix<'a> {
    /// The mix of a seed, with no block yet.
    pub fn new(machine: &'a Machine, calls: Calls, low: u64, high: u64, seed: u32) -> Self {
        let mut rng = Mt19937::new(seed);
        let (low, high) = ((low as f64).ln(), (high as f64).ln());
        let step = |i| {
            // The first ones fill every slot, and so does each repetition: it ends in the same state.
            let slot = if i < LIVE { i } else { rng.next_u32() as usize % LIVE };
            (slot, rng.uniform(low, high).exp() as u64)
        };
        let steps = (0..MIX_STEPS).map(step).collect();
        Self { machine, calls, steps, live: (0..LIVE).map(|_| None).collect(), at: 0 }
    }

    /// The next step.
    #[inline]
    pub fn step(&mut self) {
        let (slot, bytes) = self.steps[self.at];
        self.at = (self.at + 1) % MIX_STEPS;
        let place = &mut self.live[slot];
        *place = None;
        *place = Some(self.machine.allocate(bytes, self.calls));
    }
}

/// What `events` entries of a history cost: the time of steps of a mix that is recorded less that of as many of one
/// that is not, in turn. A step makes [`STEP_EVENTS`] entries.
pub fn history<'a>(plain: &mut Mix<'a>, recorded: &mut Mix<'a>, events: u64) -> Duration {
    let mut left = events.div_ceil(STEP_EVENTS);
    let mut took = [Duration::ZERO; 2];
    while left > 0 {
        let steps = left.min(1000);
        left -= steps;
        for (mix, took) in [&mut *plain, &mut *recorded].into_iter().zip(&mut took) {
            let begun = Instant::now();
            (0..steps).for_each(|_| mix.step());
            *took += begun.elapsed();
        }
    }
    took[1].saturating_sub(took[0])
}

/// Runs `steps` steps of a mix on each of `mixes.len()` threads, each on a stream of its own; the time from
/// their common start to the end of the last.
pub fn on_threads(machine: &Machine, mixes: &mut [Mix<'_>], streams: &[Stream], steps: u64) -> Duration {
    let start = Barrier::new(mixes.len() + 1);
    thread::scope(|scope| {
        for (mix, &stream) in mixes.iter_mut().zip(streams) {
            let start = &start;
            scope.spawn(move || {
                let runtime = machine.allocator.runtime();
                runtime.set_current_stream(stream).expect("it is of this runtime");
                start.wait();
                (0..steps).for_each(|_| mix.step());
            });
        }
        start.wait();
        Instant::now()
    })
    .elapsed()
}
