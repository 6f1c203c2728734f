//! All that a program can hold of a driver ends in any order and on any thread, beside a capture too, and leaves
//! nothing. Of two runtimes of one driver, so that neither takes the other along.
#![expect(unsafe_code, reason = "replays graphs whose memory is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::thread;

use c10_core::EventFlags;
use c10_cuda::alloc::{MemPool, MemPoolOptions};
use c10_cuda::driver::sim::{Call, Completion, SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, Status};
use c10_cuda::{
    CachingAllocator, CaptureOptions, Config, CudaEvent, CudaGenerator, CudaGraph, CudaStream, Error,
    PinnedAllocator, PinnedConfig, Result, Runtime,
};

use crate::rig::{GIB, MIB, Watch, address};
use crate::rng::Rng;
use crate::support::fill;

/// What ends.
type Held = Vec<Box<dyn Send>>;

const SEEDS: u64 = 3;

pub(crate) const SETTINGS: [&str; 3] = ["", "expandable_segments:True", "backend:cudaMallocAsync"];

/// All that a program can hold, in use on two streams.
fn program(driver: &Arc<dyn Driver>, settings: &str, held: &mut Held) -> Result<()> {
    let runtime = Runtime::new(Arc::clone(driver));
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::parse(settings)?)?;
    let [main, side] = [CudaStream::from_pool(&runtime, 0, 0)?, CudaStream::from_pool(&runtime, 0, -1)?];
    let block = cuda.allocate_on(MIB / 2, &main)?;
    side.wait_stream(&main)?;
    fill(&**driver, DevicePtr(address(&block)), 1, MIB / 2, side.handle())?;
    cuda.record_stream(&block, &side)?;
    for reserve_segment_size in [0, MIB] {
        let config = PinnedConfig { reserve_segment_size, ..PinnedConfig::default() };
        let pinned = PinnedAllocator::new(runtime.clone(), config)?;
        let host = pinned.allocate(5000)?;
        pinned.record_event(&host, &side)?;
        held.push(Box::new(host));
        held.push(Box::new(pinned));
    }
    if let Ok(pool) = MemPool::new(&cuda, 0, MemPoolOptions::default()) {
        held.push(Box::new(pool.with(|| cuda.allocate(MIB / 2))??));
        held.push(Box::new(pool));
    }
    let uncached = CachingAllocator::with_runtime(runtime.clone(), Config::default())?;
    uncached.enable(false);
    held.push(Box::new(uncached.allocate(MIB)?));
    let event = CudaEvent::new(&runtime, EventFlags { timing: true, ..EventFlags::default() })?;
    event.record(&side)?;
    side.wait_event(&main.record_event()?)?;
    let generator = CudaGenerator::new(&runtime, 0)?;
    for keep_graph in [false, true] {
        let options =
            CaptureOptions { generators: vec![generator.clone()], keep_graph, ..CaptureOptions::default() };
        let (mut graph, ()) = CudaGraph::capture(&cuda, &main, options, |_| {
            generator.philox_state(4)?;
            let output = cuda.allocate(4096)?;
            fill(&**driver, DevicePtr(address(&output)), 1, 4096, main.handle())?;
            Ok::<_, Error>(())
        })?;
        if keep_graph {
            graph.instantiate()?;
        }
        // SAFETY: all its memory is the graph's.
        unsafe { graph.replay_on(&side) }?;
        held.push(Box::new(graph));
    }
    // Freed with a use that may not be over, and cached.
    let used = cuda.allocate_on(100, &main)?;
    cuda.record_stream(&used, &side)?;
    drop(used);
    held.extend([Box::new(cuda) as Box<dyn Send>, Box::new(uncached), Box::new(block), Box::new(event)]);
    held.extend([Box::new(main) as Box<dyn Send>, Box::new(side), Box::new(generator), Box::new(runtime)]);
    Ok(())
}

/// Ends it all, on three threads.
fn end(mut held: Held, rng: &mut Rng) {
    let mut shares: [Held; 3] = Default::default();
    while !held.is_empty() {
        let next = held.swap_remove(rng.place(held.len()));
        shares[rng.place(3)].push(next);
    }
    thread::scope(|scope| shares.into_iter().for_each(|share| _ = scope.spawn(|| drop(share))));
}

/// Two programs on a driver, whose ends come in an order that the seed says, and in a capture where there is one.
pub(crate) fn run(driver: &Arc<dyn Driver>, settings: &str, seed: u64, beside: bool) {
    let mut rng = Rng::new(seed);
    let mut held = Held::new();
    program(driver, settings, &mut held).unwrap();
    program(driver, SETTINGS[rng.place(SETTINGS.len())], &mut held).unwrap();
    if !beside {
        return end(held, &mut rng);
    }
    let cuda = CachingAllocator::new(Arc::clone(driver), Config::default()).unwrap();
    let on = CudaStream::from_pool(cuda.runtime(), 0, 0).unwrap();
    let (graph, ()) = CudaGraph::capture(&cuda, &on, CaptureOptions::default(), |capture| {
        let block = cuda.allocate(4096)?;
        fill(&**driver, DevicePtr(address(&block)), 1, 4096, on.handle())?;
        end(held, &mut rng);
        assert!(capture.is_sound()?, "{settings:?}, {seed}");
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!((graph.node_count() > 0, cuda.runtime().take_drop_error()), (true, None));
}

/// A machine, which has been left as it was: nothing was refused, and nothing is left of what was made.
struct Machine {
    sim: Arc<SimDriver>,
    _watch: Watch,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let completion = [Completion::Eager, Completion::Manual, Completion::Seeded(seed)];
        let machine = SimConfig::with_bytes(GIB).completion(completion[seed as usize % 3]);
        let sim = SimDriver::new(machine.race_detector().log_calls(1 << 20));
        let watch = Watch::new(&sim);
        Self { sim, _watch: watch }
    }

    fn driver(&self) -> Arc<dyn Driver> {
        self.sim.clone()
    }

    fn is_as_before(&self, what: &str) {
        // A segment's stream may have ended: then the device is waited for.
        let is_told = |call: &Call| {
            let asks = ["stream_synchronize", "capture_state"].contains(&call.name);
            asks && call.status == Some(Status::InvalidHandle)
        };
        let calls = self.sim.take_calls().into_iter();
        let refused: Vec<_> = calls.filter(|call| call.status.is_some() && !is_told(call)).collect();
        assert!(refused.is_empty(), "{what}: {refused:?}");
        let info = self.sim.memory_info(0).unwrap();
        assert_eq!(info.free, info.total, "{what}");
        for (made, ended) in [
            ("malloc", "free"),
            ("host_alloc", "host_free"),
            ("stream_create", "stream_destroy"),
            ("event_create", "event_destroy"),
            ("stream_end_capture", "graph_destroy"),
            ("graph_instantiate", "graph_exec_destroy"),
            ("reserve", "free_range"),
        ] {
            assert_eq!(self.sim.call_count(made), self.sim.call_count(ended), "{made}: {what}");
        }
        assert!(self.sim.take_faults().is_empty(), "{what}");
        // The machine's own, and the watch's.
        assert_eq!(Arc::strong_count(&self.sim), 2, "{what}");
    }
}

#[test]
fn what_a_program_holds_ends_in_any_order() {
    for seed in 0..SEEDS {
        for (beside, settings) in [false, true].into_iter().flat_map(|b| SETTINGS.map(|s| (b, s))) {
            let machine = Machine::new(seed);
            run(&machine.driver(), settings, seed, beside);
            machine.is_as_before(&format!("{settings:?}, seed {seed}, beside a capture: {beside}"));
        }
    }
}

/// Programs come and go, and captures begin and end, on threads beside each other.
pub(crate) fn run_on_threads(driver: &Arc<dyn Driver>, settings: &str, seed: u64, rounds: u64) {
    thread::scope(|scope| {
        for own in 0..3 {
            scope.spawn(move || {
                (0..rounds).for_each(|round| run(driver, settings, seed + 3 * round + own, round % 2 == 0));
            });
        }
    });
}

#[test]
fn programs_come_and_go_beside_each_other() {
    for seed in 0..SEEDS {
        for settings in SETTINGS {
            let machine = Machine::new(seed);
            run_on_threads(&machine.driver(), settings, seed, 4);
            machine.is_as_before(&format!("{settings:?}, seed {seed}"));
        }
    }
}
