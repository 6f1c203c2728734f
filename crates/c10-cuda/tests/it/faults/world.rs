//! [`World`]: what a program of the sweep has, and how it ends.

use std::any::Any;
use std::sync::Arc;

use c10_core::{DataPtr, DeviceIndex, Stream};
use c10_cuda::alloc::History;
use c10_cuda::driver::sim::{FaultPlan, SimConfig, SimDriver};
use c10_cuda::driver::{Checked, Driver};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, PinnedAllocator, PinnedConfig, Runtime};

use crate::rig::MIB;

/// The memory of each device.
pub(crate) const BYTES: u64 = 100 * MIB;

/// What a program has; the memory goes first. The driver is strict: a call that uses what is not live stops the test.
pub(crate) struct World {
    pub(crate) held: Vec<DataPtr>,
    /// Whatever else is to end with no more faults.
    pub(crate) kept: Vec<Box<dyn Any>>,
    pub(crate) cuda: CachingAllocator,
    pub(crate) pinned: PinnedAllocator,
    pub(crate) runtime: Runtime,
    pub(crate) driver: Arc<Checked>,
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) errors: Vec<Error>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self::over(config, Checked::strict)
    }

    /// One whose allocator may name streams that are gone.
    pub(crate) fn lenient(config: Config) -> Self {
        Self::over(config, Checked::new)
    }

    fn over(config: Config, checked: fn(Arc<dyn Driver>) -> Arc<Checked>) -> Self {
        let sim = SimDriver::new(SimConfig::with_devices(2, BYTES).race_detector());
        let driver = checked(Arc::clone(&sim) as Arc<dyn Driver>);
        let runtime = Runtime::new(Arc::clone(&driver) as Arc<dyn Driver>);
        let cuda = CachingAllocator::with_runtime(runtime.clone(), config).unwrap();
        let pinned = PinnedAllocator::new(runtime.clone(), PinnedConfig::default()).unwrap();
        cuda.record_history(Some(History { max_entries: 100, ..History::default() }));
        Self { held: Vec::new(), kept: Vec::new(), cuda, pinned, runtime, driver, sim, errors: Vec::new() }
    }

    /// Keeps what a step gives, or its error, and looks at the rules.
    pub(crate) fn step<T>(&mut self, result: c10_cuda::Result<T>) -> Option<T> {
        self.cuda.check_invariants();
        self.pinned.check_invariants();
        result.map_err(|error| self.errors.push(error)).ok()
    }

    /// The same for a call of the driver.
    pub(crate) fn driver_step<T>(&mut self, result: c10_cuda::driver::Result<T>) -> Option<T> {
        self.step(result.map_err(Error::from))
    }

    pub(crate) fn allocate(&mut self, bytes: u64, stream: Stream) {
        let result = self.cuda.allocate_on(bytes, stream);
        if let Some(ptr) = self.step(result) {
            self.held.push(ptr);
        }
    }

    pub(crate) fn free(&mut self, count: usize) {
        let keep = self.held.len().saturating_sub(count);
        while self.held.len() > keep {
            drop(self.held.pop());
            self.cuda.check_invariants();
        }
    }

    /// Ends the program with no more faults, and looks whether all is as new.
    pub(crate) fn end(self, what: &str) {
        let (sim, driver) = self.end_after_many(what);
        assert_eq!(driver.live(), "", "{what}");
        assert_eq!(sim.races(), [], "{what}");
        assert_eq!(sim.take_faults(), [], "{what}");
    }

    /// The same after many faults, with which what the driver refused to end may be left, but no memory.
    pub(crate) fn end_after_many(mut self, what: &str) -> (Arc<SimDriver>, Arc<Checked>) {
        self.sim.set_faults(FaultPlan::new());
        self.kept.clear();
        self.held.clear();
        // What faulted is told to the first that waits.
        let _ = self.sim.device_synchronize(0);
        for device in 0..2 {
            self.cuda.set_memory_fraction(1.0, device).unwrap();
        }
        self.cuda.empty_cache().unwrap();
        self.pinned.empty_cache().unwrap();
        self.cuda.check_invariants();
        self.pinned.check_invariants();
        for device in 0..2 {
            assert_eq!(current(&self.cuda.device_stats(device).unwrap()), [0; 4], "{what}");
            assert_eq!(free_on(&self.sim, device), BYTES, "{what}");
        }
        drop(self.cuda.allocate(90 * MIB).unwrap());
        drop(self.pinned.allocate(5000).unwrap());
        let Self { sim, runtime, cuda, pinned, driver, .. } = self;
        drop((cuda, pinned, runtime));
        assert_eq!(free_on(&sim, 0), BYTES, "{what}");
        (sim, driver)
    }
}

/// What is in use, by the allocator's account.
fn current(stats: &DeviceStats) -> [i64; 4] {
    [
        stats.allocation.all.current,
        stats.active_bytes.all.current,
        stats.reserved_bytes.all.current,
        stats.inactive_split_bytes.all.current,
    ]
}

pub(crate) fn free_on(sim: &SimDriver, device: DeviceIndex) -> u64 {
    sim.memory_info(device).unwrap().free
}
