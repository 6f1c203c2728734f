//! The allocator's own trace entries, each with its place among the driver's calls (`TORCH_REPLAY_TRACE`).
//!
//! An entry's time is how many calls the driver had served: that is the clock here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use c10_cuda::CachingAllocator;
use c10_cuda::alloc::{History, TraceAction, TraceEntry};
use c10_cuda::driver::sim::SimDriver;

/// The calls that get lines of their own, and by whose number entries are placed among them.
const CALLS: [&str; 8] = ["malloc", "free", "reserve", "free_range", "create", "map", "unmap", "release"];
/// What a memory pool does of itself, and gets lines too. With one there are no entries.
const POOL_NOTES: [&str; 4] = ["mem_pool_reserve", "mem_pool_release", "graph_malloc", "graph_free"];

/// Whether a call gets a line.
pub(super) fn has_line(call: &str) -> bool {
    CALLS.contains(&call) || POOL_NOTES.contains(&call)
}

thread_local! {
    /// Whose calls are the time: a clock is a plain function.
    static DRIVER: RefCell<Option<Arc<SimDriver>>> = const { RefCell::new(None) };
}

/// Makes a driver's calls the time of what this thread does.
pub(super) fn count_calls_of(driver: &Arc<SimDriver>) {
    DRIVER.set(Some(Arc::clone(driver)));
}

/// Begins to record all that the allocator does.
pub(super) fn record(allocator: &CachingAllocator) {
    allocator.record_history(Some(History {
        max_entries: usize::MAX,
        clock: Some(calls_so_far),
        clear: true,
        ..History::default()
    }));
}

fn calls_so_far() -> u64 {
    DRIVER.with_borrow(|driver| driver.as_ref().map_or(0, |driver| calls_of(driver)))
}

/// How many calls that get lines a driver has served.
pub(super) fn calls_of(driver: &SimDriver) -> u64 {
    CALLS.iter().map(|call| driver.call_count(call)).sum()
}

/// The entries since the last time, those of each device in order: how many driver calls stand before each, and
/// the entry.
pub(super) fn take(allocator: &CachingAllocator) -> Vec<(u64, TraceEntry)> {
    let traces = allocator.snapshot(true).device_traces;
    record(allocator);
    let before = |entry: &TraceEntry| match entry.action {
        // PyTorch writes it down and then calls the driver; ours only when the driver has taken the segment.
        TraceAction::SegmentFree => entry.time_us.saturating_sub(1),
        _ => entry.time_us,
    };
    traces.into_iter().flatten().map(|entry| (before(&entry), entry)).collect()
}

/// What `history` keeps of the entries while all of them are recorded for their lines.
#[derive(Debug)]
pub(super) struct Kept {
    history: History,
    /// By device.
    entries: Vec<VecDeque<TraceEntry>>,
}

impl Kept {
    pub(super) fn new(history: History, devices: usize) -> Self {
        Self { history, entries: vec![VecDeque::new(); devices] }
    }

    pub(super) fn add(&mut self, device: usize, entry: &TraceEntry) {
        if self.history.skip_actions.contains(&entry.action) {
            return;
        }
        let entries = &mut self.entries[device];
        if entries.len() == self.history.max_entries.max(1) {
            entries.pop_front();
        }
        entries.push_back(entry.clone());
    }

    /// By device, the oldest first.
    pub(super) fn entries(&self) -> Vec<Vec<TraceEntry>> {
        self.entries.iter().map(|entries| entries.iter().cloned().collect()).collect()
    }
}
