//! Every driver call that the allocator makes fails once, at every place of a busy program.

use std::sync::Arc;

use c10_core::{DataPtr, DeviceType, Stream};
use c10_cuda::alloc::History;
use c10_cuda::driver::sim::{CALL_NAMES, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, ErrorKind, Runtime};

use crate::rig::MIB;

const BYTES: u64 = 100 * MIB;

/// What the program has; the memory goes first.
struct World {
    held: Vec<DataPtr>,
    cuda: CachingAllocator,
    runtime: Runtime,
    sim: Arc<SimDriver>,
    errors: Vec<Error>,
}

impl World {
    fn new(config: Config) -> Self {
        let sim = SimDriver::new(SimConfig::with_bytes(BYTES));
        let runtime = Runtime::new(Arc::clone(&sim) as Arc<dyn Driver>);
        let cuda = CachingAllocator::with_runtime(runtime.clone(), config).unwrap();
        cuda.record_history(Some(History { max_entries: 100, ..History::default() }));
        Self { held: Vec::new(), cuda, runtime, sim, errors: Vec::new() }
    }

    /// Keeps what a step gives, or its error, and looks at the rules.
    fn step<T>(&mut self, result: c10_cuda::Result<T>) -> Option<T> {
        self.cuda.check_invariants();
        result.map_err(|error| self.errors.push(error)).ok()
    }

    fn allocate(&mut self, bytes: u64, stream: Stream) {
        let result = self.cuda.allocate_on(bytes, stream);
        if let Some(ptr) = self.step(result) {
            self.held.push(ptr);
        }
    }

    fn free(&mut self, count: usize) {
        let keep = self.held.len().saturating_sub(count);
        while self.held.len() > keep {
            drop(self.held.pop());
            self.cuda.check_invariants();
        }
    }

    /// Pools, streams, shortages of every kind, deferred frees, an emptied cache.
    fn busy(&mut self) {
        let main = Stream::default_of(DeviceType::Cuda, 0);
        let result = self.runtime.stream_from_pool(0, 0);
        let side = self.step(result).unwrap_or(main);
        let result = self.cuda.set_memory_fraction(0.9, 0);
        self.step(result);
        for bytes in [100, 3 * MIB, 30 * MIB, 25 * MIB] {
            self.allocate(bytes, main);
        }
        self.allocate(5000, side);
        for at in 0..self.held.len() {
            let result = self.cuda.record_stream(&self.held[at], side);
            self.step(result);
        }
        self.free(3);
        self.allocate(40 * MIB, main);
        self.sim.complete_all();
        self.allocate(10 * MIB, side);
        self.free(2);
        let result = self.cuda.empty_cache();
        self.step(result);
        self.allocate(200 * MIB, main);
        self.allocate(90 * MIB, main);
        let result = self.cuda.cache_info(0);
        self.step(result);
        for _ in 0..2 {
            self.allocate(21 * MIB, main);
        }
        self.free(2);
        self.allocate(50 * MIB, main);
        self.free(1);
    }

    /// Ends the program with no more faults, and looks whether all is as new. An `event_create` that failed was
    /// counted and made nothing.
    fn end(mut self, failed_creates: u64, what: &str) {
        self.sim.set_faults(FaultPlan::new());
        self.held.clear();
        self.cuda.set_memory_fraction(1.0, 0).unwrap();
        self.cuda.empty_cache().unwrap();
        self.cuda.check_invariants();
        let current = |stats: &DeviceStats| {
            [
                stats.allocation.all.current,
                stats.active_bytes.all.current,
                stats.reserved_bytes.all.current,
                stats.inactive_split_bytes.all.current,
            ]
        };
        assert_eq!(current(&self.cuda.device_stats(0).unwrap()), [0; 4], "{what}");
        assert_eq!(self.sim.memory_info(0).unwrap().free, BYTES, "{what}");
        drop(self.cuda.allocate(90 * MIB).unwrap());
        let Self { sim, runtime, cuda, .. } = self;
        drop((cuda, runtime));
        assert_eq!(sim.memory_info(0).unwrap().free, BYTES, "{what}");
        let created = sim.call_count("event_create") - failed_creates;
        assert_eq!(created, sim.call_count("event_destroy"), "{what}");
    }
}

fn settings() -> [Config; 5] {
    [
        Config::default(),
        Config { expandable_segments: true, ..Config::default() },
        Config {
            search_after_synchronize: false,
            ..Config::parse("expandable_segments:True,max_split_size_mb:40").unwrap()
        },
        Config { search_after_synchronize: false, release_lock_on_malloc: true, ..Config::default() },
        Config::parse("max_split_size_mb:20,garbage_collection_threshold:0.3,throw_on_cudamalloc_oom:True")
            .unwrap(),
    ]
}

/// How often each call is made by the program.
fn counts(config: &Config) -> Vec<(&'static str, u64)> {
    let mut world = World::new(config.clone());
    let before = CALL_NAMES.map(|name| world.sim.call_count(name));
    world.busy();
    let made = CALL_NAMES.iter().zip(before);
    let counts = made.map(|(name, before)| (*name, world.sim.call_count(name) - before));
    let counts = counts.filter(|(_, count)| *count > 0).collect();
    world.end(0, "no fault");
    counts
}

#[test]
fn the_program_is_busy() {
    let mut names: Vec<_> = settings().iter().flat_map(counts).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let expected = [
        "create",
        "device_props",
        "event_create",
        "event_query",
        "event_record",
        "event_synchronize",
        "free",
        "free_range",
        "malloc",
        "map",
        "memory_info",
        "release",
        "reserve",
        "set_access",
        "stream_create",
        "stream_priority_range",
        "stream_synchronize",
        "unmap",
    ];
    assert_eq!(names, expected);
}

#[test]
fn one_fault_anywhere_is_an_error_and_no_more() {
    for config in settings() {
        for (call, count) in counts(&config) {
            for nth in 1..=count.min(12) {
                for status in [Status::OutOfMemory, Status::InvalidHandle, Status::Other(999)] {
                    let what = format!("{call} #{nth} {status} with {config:?}");
                    let mut world = World::new(config.clone());
                    world.sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, status)));
                    world.busy();
                    for error in &world.errors {
                        let expected = match error.kind() {
                            ErrorKind::OutOfMemory => error.out_of_memory().is_some(),
                            ErrorKind::Driver => {
                                error.driver().is_some_and(|e| e.call == call && e.status == status)
                            }
                            _ => false,
                        };
                        assert!(expected, "{what}: {error:?}");
                    }
                    if call == "event_create" || call == "event_record" {
                        let met = world.cuda.take_free_error(0).unwrap();
                        assert_eq!(met.map(|error| error.call), Some(call), "{what}");
                    }
                    world.end(u64::from(call == "event_create"), &what);
                }
            }
        }
    }
}

#[test]
fn faults_while_the_allocator_ends_lose_no_memory_but_what_the_driver_keeps() {
    for call in ["event_synchronize", "event_query", "event_destroy", "device_synchronize"] {
        let mut world = World::new(Config::default());
        world.busy();
        let side = world.runtime.stream_from_pool(0, 0).unwrap();
        let ptr = world.cuda.allocate(3 * MIB).unwrap();
        world.cuda.record_stream(&ptr, side).unwrap();
        drop(ptr);
        let World { held, cuda, runtime, sim, .. } = world;
        sim.set_faults(FaultPlan::from(FaultRule::nth(call, 1, Status::Other(4))));
        drop((cuda, runtime));
        drop(held);
        assert_eq!(sim.memory_info(0).unwrap().free, BYTES, "{call}");
    }
    // A segment that the driver does not take back stays; the others go.
    let world = World::new(Config::default());
    let blocks = [20, 30, 40].map(|mib| world.cuda.allocate(mib * MIB).unwrap());
    drop(blocks);
    let World { cuda, sim, runtime, .. } = world;
    sim.set_faults(FaultPlan::from(FaultRule::nth("free", 2, Status::Other(4))));
    drop((cuda, runtime));
    assert_eq!(sim.memory_info(0).unwrap().free, BYTES - 30 * MIB);
}

#[test]
fn a_free_that_fails_stops_no_other() {
    let world = World::new(Config::default());
    drop([20, 30, 40].map(|mib| world.cuda.allocate(mib * MIB).unwrap()));
    world.sim.set_faults(FaultPlan::from(FaultRule::nth("free", 1, Status::Other(4))));
    let error = world.cuda.empty_cache().unwrap_err();
    assert_eq!((error.kind(), error.driver().unwrap().call), (ErrorKind::Driver, "free"));
    assert_eq!(world.cuda.memory_reserved(0).unwrap(), 20 * MIB);
    world.cuda.empty_cache().unwrap();
    assert_eq!(world.cuda.memory_reserved(0).unwrap(), 0);
}

#[test]
fn a_driver_that_is_dead_harms_nobody() {
    let mut world = World::new(Config::default());
    world.busy();
    let dead = FaultRule::any(FaultWhen::Every(1), Status::IllegalAddress);
    world.sim.set_faults(FaultPlan::from(dead));
    let before = world.errors.len();
    world.busy();
    assert!(world.errors[before..].iter().all(|error| error.kind() != ErrorKind::InvalidArgument));
    world.held.clear();
    world.cuda.check_invariants();
    assert_eq!(world.cuda.empty_cache().unwrap_err().kind(), ErrorKind::Driver);
    let World { cuda, runtime, .. } = world;
    drop((runtime, cuda));
}

#[test]
fn random_faults_leave_nothing_behind() {
    for seed in 0..60 {
        let config = settings()[seed as usize % 5].clone();
        let mut world = World::new(config);
        let when = |p| FaultWhen::Probability { p, seed };
        let plan = FaultPlan::new()
            .rule(FaultRule::new("malloc", when(0.3), Status::OutOfMemory))
            .rule(FaultRule::any(when(0.15), Status::Other(2)));
        world.sim.set_faults(plan);
        for _ in 0..3 {
            world.busy();
        }
        let World { mut held, cuda, runtime, sim, .. } = world;
        held.clear();
        sim.set_faults(FaultPlan::new());
        cuda.empty_cache().unwrap();
        cuda.check_invariants();
        drop((cuda, runtime));
        assert_eq!(sim.memory_info(0).unwrap().free, BYTES, "seed {seed}");
    }
}
