//! The allocator's own trace entries, each with its place among the driver's calls (`TORCH_REPLAY_TRACE`).
//!
//! An entry's time is how many calls the driver had served: that is the clock here.

use std::cell::RefCell;
use std::sync::Arc;

use c10_cuda::CachingAllocator;
use c10_cuda::alloc::{History, TraceAction, TraceEntry};
use c10_cuda::driver::sim::SimDriver;

/// The calls that get lines of their own.
pub(super) const CALLS: [&str; 8] =
    ["malloc", "free", "reserve", "free_range", "create", "map", "unmap", "release"];

thread_local! {
    /// Whose calls are the time: a clock is a plain function.
    static DRIVER: RefCell<Option<Arc<SimDriver>>> = const { RefCell::new(None) };
}

/// Begins to record what the allocator does on this thread.
pub(super) fn record(allocator: &CachingAllocator, driver: &Arc<SimDriver>) {
    DRIVER.set(Some(Arc::clone(driver)));
    record_on(allocator);
}

fn record_on(allocator: &CachingAllocator) {
    allocator.record_history(Some(History {
        max_entries: usize::MAX,
        skip_actions: vec![TraceAction::Snapshot],
        clock: Some(calls_so_far),
        clear: true,
        ..History::default()
    }));
}

fn calls_so_far() -> u64 {
    DRIVER.with_borrow(|driver| {
        driver.as_ref().map_or(0, |d| CALLS.iter().map(|call| d.call_count(call)).sum())
    })
}

/// The entries since the last time, the oldest first: how many driver calls stand before each, and the entry.
pub(super) fn take(allocator: &CachingAllocator) -> Vec<(u64, TraceEntry)> {
    let entries = allocator.snapshot(true).device_traces.swap_remove(0);
    record_on(allocator);
    let before = |entry: &TraceEntry| match entry.action {
        // PyTorch writes it down and then calls the driver; ours only when the driver has taken the segment.
        TraceAction::SegmentFree => entry.time_us.saturating_sub(1),
        _ => entry.time_us,
    };
    entries.into_iter().map(|entry| (before(&entry), entry)).collect()
}
