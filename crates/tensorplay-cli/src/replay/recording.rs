//! [`Recording`]: what a snapshot says about a device by itself, before anything is run again.

use serde::Serialize;

use crate::snapshot::{Action, InitialState, Snapshot};

/// What a snapshot says about one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Recording {
    /// The device.
    pub(crate) device: usize,
    /// Entries of its history.
    pub(crate) events: usize,
    /// Allocations among them.
    pub(crate) allocations: usize,
    /// Segments obtained and given back, mapped and unmapped, among them.
    pub(crate) segment_events: usize,
    /// Out-of-memory errors among them.
    pub(crate) out_of_memory: usize,
    /// The time from the first entry to the last, in microseconds, where the file has times.
    pub(crate) duration_us: Option<u64>,
    /// The allocator's configuration string, where the file has it.
    pub(crate) configuration: Option<String>,
    /// Whether the device held nothing when the history began.
    pub(crate) starts_empty: bool,
    /// Segments when it began.
    pub(crate) segments_at_start: usize,
    /// Live blocks when it began.
    pub(crate) live_blocks_at_start: usize,
    /// The largest sum of what the program had asked for and not yet got rid of, in bytes.
    pub(crate) peak_requested_bytes: u64,
    /// The largest sum of segments, in bytes.
    pub(crate) peak_reserved_bytes: u64,
    /// What the file leaves open.
    pub(crate) notes: Vec<String>,
}

impl Recording {
    /// Goes through the history of the device that `initial` is about.
    pub(crate) fn new(snapshot: &Snapshot, initial: &InitialState) -> Self {
        let trace = snapshot.trace(initial.device);
        let count = |wanted: fn(Action) -> bool| trace.iter().filter(|event| wanted(event.action)).count();
        // Events of which the file tells no time may stand between those of which it does.
        let mut times = trace.iter().filter_map(|event| event.time_us);
        let (first, last) = (times.next(), times.next_back());
        let (peak_requested_bytes, peak_reserved_bytes) = peaks(snapshot, initial);
        Self {
            device: initial.device,
            events: trace.len(),
            allocations: count(|action| action == Action::Alloc),
            segment_events: count(|action| {
                matches!(
                    action,
                    Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap
                )
            }),
            out_of_memory: count(|action| action == Action::Oom),
            duration_us: first.map(|first| last.unwrap_or(first).saturating_sub(first)),
            configuration: snapshot.allocator_settings.as_ref().map(|settings| settings.conf.clone()),
            starts_empty: initial.starts_empty,
            segments_at_start: initial.segments.len(),
            live_blocks_at_start: initial.live().count(),
            peak_requested_bytes,
            peak_reserved_bytes,
            notes: initial.notes.clone(),
        }
    }

    /// Whether the file has nothing about the device.
    pub(crate) fn is_empty(&self) -> bool {
        self.events == 0 && self.segments_at_start == 0
    }
}

/// The peaks of requested and of reserved bytes.
fn peaks(snapshot: &Snapshot, initial: &InitialState) -> (u64, u64) {
    let mut requested = Level::new(initial.live().map(|block| block.requested_size).sum());
    let mut reserved = Level::new(initial.segments.iter().map(|segment| segment.total_size).sum());
    for event in snapshot.trace(initial.device) {
        match event.action {
            Action::Alloc => requested.rise(event.size),
            Action::FreeCompleted => requested.fall(event.size),
            Action::SegmentAlloc | Action::SegmentMap => reserved.rise(event.size),
            Action::SegmentFree | Action::SegmentUnmap => reserved.fall(event.size),
            Action::FreeRequested | Action::Snapshot | Action::Oom | Action::Annotate => {}
        }
    }
    (requested.peak, reserved.peak)
}

/// A sum over time. All that it sums lies apart in one address space, so that it cannot overflow.
struct Level {
    now: u64,
    peak: u64,
}

impl Level {
    fn new(now: u64) -> Self {
        Self { now, peak: now }
    }

    fn rise(&mut self, by: u64) {
        self.now = self.now.saturating_add(by);
        self.peak = self.peak.max(self.now);
    }

    fn fall(&mut self, by: u64) {
        self.now = self.now.saturating_sub(by);
    }
}
