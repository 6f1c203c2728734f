//! What a program may do next: one line each, with how often.

use std::sync::Arc;

use c10_core::DeviceIndex;
use c10_cuda::alloc::{History, MemPool, MemPoolOptions};

use super::worker::Worker;
use crate::rig::MIB;

/// An operation, by name and weight.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    weight: u64,
    pub(crate) run: fn(&mut Worker),
}

const fn op(weight: u64, name: &'static str, run: fn(&mut Worker)) -> Operation {
    Operation { name, weight, run }
}

/// All of them. The order is part of what a seed means.
const OPERATIONS: &[Operation] = &[
    op(240, "allocate small", |w| w.allocate_up_to(4096)),
    op(120, "allocate up to 2 MiB", |w| w.allocate_up_to(2 * MIB)),
    op(80, "allocate up to 12 MiB", |w| w.allocate_up_to(12 * MIB)),
    op(20, "allocate a lot", |w| w.allocate_up_to(120 * MIB)),
    op(3, "allocate too much", |w| w.allocate_up_to(1 << 50)),
    op(20, "raw_alloc", Worker::raw_alloc),
    op(40, "come and go", Worker::come_and_go),
    op(60, "allocate in a pool", Worker::allocate_in_pool),
    op(3, "end a pool", Worker::end_pool),
    op(3, "empty a pool's cache", Worker::empty_pool_cache),
    op(420, "free", Worker::free),
    op(30, "free in the order of its own stream", Worker::free_ordered),
    op(40, "free many", |w| (0..8).for_each(|_| w.free())),
    op(200, "use", Worker::use_on_own),
    op(150, "use on another stream", Worker::use_elsewhere),
    op(40, "copy", Worker::copy),
    op(30, "copy from pinned memory", |w| w.copy_pinned(true)),
    op(30, "copy to pinned memory", |w| w.copy_pinned(false)),
    op(3, "empty_cache of pinned memory", |w| w.shared.pinned.empty_cache().expect("no call fails")),
    op(30, "hand over to another thread", Worker::exchange),
    op(60, "complete a stream", Worker::complete_stream),
    op(10, "complete all", |w| w.shared.sim.complete_all()),
    op(20, "wait for a stream", Worker::wait_stream),
    op(3, "let a pool sleep", Worker::sleep),
    op(3, "capture", Worker::capture),
    op(6, "stream_synchronize", Worker::stream_synchronize),
    op(3, "device_synchronize", Worker::device_synchronize),
    op(8, "empty_cache", |w| w.shared.cuda.empty_cache().expect("no call fails")),
    op(8, "set_memory_fraction", Worker::set_memory_fraction),
    op(2, "release_segment", Worker::release_segment),
    op(2, "snapshot", |w| drop(w.shared.cuda.snapshot(true))),
    op(2, "record_memory_history", Worker::record_history),
    op(2, "cache_info", Worker::cache_info),
    op(2, "memory_summary", Worker::memory_summary),
    op(2, "reset_peak_stats", Worker::reset_peak_stats),
];

/// The next operation, as the worker's generator decides.
pub(crate) fn next(worker: &mut Worker) -> &'static Operation {
    let total: u64 = OPERATIONS.iter().map(|operation| operation.weight).sum();
    let mut left = worker.rng.below(total);
    let mut chosen = OPERATIONS.iter();
    loop {
        let operation = chosen.next().expect("the weights sum to the total");
        match left.checked_sub(operation.weight) {
            Some(rest) => left = rest,
            None => return operation,
        }
    }
}

impl Worker {
    pub(crate) fn device(&mut self) -> DeviceIndex {
        let devices = self.shared.runtime.device_count();
        self.rng.below(u64::from(devices)) as DeviceIndex
    }

    fn set_memory_fraction(&mut self) {
        let fraction = [1.0, 1.0, 0.9, 0.6, 0.3][self.rng.place(5)];
        let device = self.device();
        self.shared.cuda.set_memory_fraction(fraction, device).expect("the fraction is one");
    }

    fn release_segment(&mut self) {
        let device = self.device();
        let segments = self.shared.cuda.snapshot(false).segments;
        if !segments.is_empty() {
            // Another thread may have given it back, and it may be another device's.
            let base = segments[self.rng.place(segments.len())].address;
            self.shared.cuda.release_segment(base, device).expect("no call fails");
        }
    }

    fn record_history(&mut self) {
        let on = self.rng.below(2) == 0;
        let history = on.then(|| History { max_entries: 1 + self.rng.place(200), ..History::default() });
        self.shared.cuda.record_history(history);
    }

    /// Allocates from one of the worker's pools, which is made if there is none.
    fn allocate_in_pool(&mut self) {
        let at = self.rng.place(3);
        if at >= self.pools.len() {
            let options = MemPoolOptions {
                use_on_oom: self.rng.below(2) == 0,
                no_split: self.rng.below(4) == 0,
                ..MemPoolOptions::default()
            };
            let device = self.device();
            let pool = MemPool::new(&self.shared.cuda, device, options).expect("the device is there");
            self.pools.push(Arc::new(pool));
        }
        let pool = Arc::clone(&self.pools[at.min(self.pools.len() - 1)]);
        let _use = pool.enter().expect("it is this worker's alone");
        self.allocate_up_to(3 * MIB);
    }

    fn end_pool(&mut self) {
        if !self.pools.is_empty() {
            let at = self.rng.place(self.pools.len());
            drop(self.pools.swap_remove(at));
        }
    }

    fn empty_pool_cache(&mut self) {
        if !self.pools.is_empty() {
            let pool = &self.pools[self.rng.place(self.pools.len())];
            self.shared.cuda.empty_pool_cache(pool.device(), pool.id()).expect("no call fails");
        }
    }

    fn cache_info(&mut self) {
        let device = self.device();
        self.shared.cuda.cache_info(device).expect("no call fails");
    }

    fn reset_peak_stats(&mut self) {
        let device = self.device();
        self.shared.cuda.reset_peak_stats(device).expect("the device is there");
    }

    fn memory_summary(&mut self) {
        let device = self.device();
        let text = self.shared.cuda.memory_summary(device).expect("the device is there");
        assert!(text.contains("Allocated memory"));
    }
}
