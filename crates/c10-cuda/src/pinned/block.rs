//! [`Block`]: a piece of pinned memory and who uses it.

use crate::driver::StreamHandle;

/// Where a block's memory came from, and so where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// `host_alloc`.
    Driver,
    /// The system's memory, registered.
    Registered,
    /// A part of the segment that was reserved in advance: it stays with that.
    Segment,
}

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The program.
    HandedOut,
    /// Nobody any more, but streams that have not passed.
    Waiting,
    /// A graph, for ever.
    Withheld,
    /// Nobody: it stands in the list of its class.
    Cached,
}

/// A piece of pinned memory.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: u64,
    pub(super) origin: Origin,
    pub(super) state: State,
    /// The streams that were recorded since it was handed out, and have no event yet. Sorted.
    pub(super) streams: Vec<StreamHandle>,
    /// How many entries of the event queues are its.
    pub(super) events: u32,
    /// Whether a stream that captured was recorded.
    pub(super) captured: bool,
}

impl Block {
    /// A new block that is handed out.
    pub(super) fn new(bytes: u64, origin: Origin) -> Self {
        Self { bytes, origin, state: State::HandedOut, streams: Vec::new(), events: 0, captured: false }
    }
}
