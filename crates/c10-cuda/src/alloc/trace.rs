//! [`TraceEntry`] and the ring that keeps the last of them (`torch.cuda.memory._record_memory_history`).

use std::collections::VecDeque;
use std::fmt;
use std::panic::catch_unwind;

use super::mempool_id::MempoolId;
use crate::driver::StreamHandle;

/// What happened (`TraceEntry::Action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceAction {
    /// A block was handed out.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// No stream uses it any more.
    FreeCompleted,
    /// The driver gave a segment.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// A snapshot was taken.
    Snapshot,
    /// Out of memory; the address is the driver's free bytes.
    Oom,
}

impl TraceAction {
    /// PyTorch's word: `alloc`, `free_requested`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
        }
    }
}

impl fmt::Display for TraceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that happened on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What.
    pub action: TraceAction,
    /// The address it concerns; for [`Oom`](TraceAction::Oom) the driver's free bytes.
    pub address: u64,
    /// `alloc` and both frees: what the program asked for. Segments: their whole size. `oom`: the rounded
    /// size. `snapshot`: all active bytes.
    pub size: u64,
    /// The stream of the block or the request.
    pub stream: StreamHandle,
    /// The private pool that it is about; the [default](MempoolId::DEFAULT) for the device's own.
    pub pool: MempoolId,
    /// What the clock of [`History`] said; 0 without one.
    pub time_us: u64,
}

/// What to record.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How many entries to keep, at least 1. The oldest go first.
    pub max_entries: usize,
    /// Actions that are left out.
    pub skip_actions: Vec<TraceAction>,
    /// Gives the time of entries, in microseconds. Called under the device's lock: it must not use the
    /// allocator, or it waits for itself for ever. Where it panics the time is 0.
    pub clock: Option<fn() -> u64>,
    /// Whether what was recorded before is forgotten.
    pub clear: bool,
}

/// The last entries of a device; records nothing until it is told to.
#[derive(Debug, Default)]
pub(crate) struct TraceRing {
    history: Option<History>,
    entries: VecDeque<TraceEntry>,
}

/// What a clock says; 0 when it panics: entries are made in deleters too, which may not unwind.
fn now(clock: fn() -> u64) -> u64 {
    catch_unwind(clock).unwrap_or_else(|payload| {
        // Its destructor may panic too.
        std::mem::forget(payload);
        0
    })
}

impl TraceRing {
    /// Starts to record as `history` says, or stops and forgets.
    pub(crate) fn set(&mut self, history: Option<History>) {
        if history.as_ref().is_none_or(|h| h.clear) {
            self.entries.clear();
        }
        self.history = history.map(|h| History { max_entries: h.max_entries.max(1), ..h });
        self.trim();
    }

    pub(crate) fn is_on(&self) -> bool {
        self.history.is_some()
    }

    /// The oldest first.
    pub(crate) fn entries(&self) -> Vec<TraceEntry> {
        self.entries.iter().cloned().collect()
    }

    /// Takes an entry in, with the time.
    pub(crate) fn record(&mut self, entry: TraceEntry) {
        let Some(history) = &self.history else { return };
        if history.skip_actions.contains(&entry.action) {
            return;
        }
        let time_us = history.clock.map_or(0, now);
        if self.entries.len() == history.max_entries {
            self.entries.pop_front();
        }
        self.entries.push_back(TraceEntry { time_us, ..entry });
    }

    fn trim(&mut self) {
        if let Some(history) = &self.history {
            let surplus = self.entries.len().saturating_sub(history.max_entries);
            self.entries.drain(..surplus);
        }
    }
}
