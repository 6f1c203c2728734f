//! [`Lane`]: what a request shares free blocks with: its stream, in its pool of the program's.
//!
//! Two streams share no block, and neither do two private pools. The allocator here has the default pools alone,
//! so each lane is replayed on a stream of its own.

use std::collections::BTreeMap;

use crate::snapshot::{Event, InitialState, PoolId, Snapshot};

/// The default pools' id.
const DEFAULT: PoolId = (0, 0);

/// A stream in a pool of the program's. Lanes are ordered as PyTorch empties its cache: default pools first, then
/// by stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) pool: PoolId,
    pub(super) stream: u64,
}

impl Lane {
    /// The stream that everything without one is on.
    pub(super) const FIRST: Self = Self { pool: DEFAULT, stream: 0 };

    /// Whether the pool is one of a graph or of a `MemPool`.
    pub(super) fn is_private(self) -> bool {
        self.pool != DEFAULT
    }
}

/// The lanes of a device's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// All of them, in order.
    pub(super) all: Vec<Lane>,
    /// Whether some event's pool is a guess: the file has private pools, and the event does not name its own.
    pub(super) has_guesses: bool,
    /// Segments of private pools, by first byte: the end, and the pool.
    private: BTreeMap<u64, (u64, PoolId)>,
}

impl Lanes {
    /// Goes through the history of the device that `initial` is about.
    pub(super) fn new(snapshot: &Snapshot, initial: &InitialState) -> Self {
        let mut lanes = Self::default();
        let end = snapshot.segments_of(initial.device).map(|s| (s.address, s.end(), s.pool_id));
        let start = initial.segments.iter().map(|s| (s.address, s.address + s.total_size, s.pool_id));
        lanes.private = start
            .chain(end)
            .filter(|(_, _, pool)| *pool != DEFAULT)
            .map(|(address, end, pool)| (address, (end, pool)))
            .collect();
        let trace = snapshot.trace(initial.device);
        lanes.has_guesses = !lanes.private.is_empty()
            && trace.iter().any(|event| event.action.has_address() && event.pool_id.is_none());
        let held = initial.segments.iter().map(|s| Lane { pool: s.pool_id, stream: s.stream });
        let mut all: Vec<_> = std::iter::once(Lane::FIRST).chain(held).collect();
        for event in trace {
            let lane = lanes.of(event);
            // Most events are on the lane of the one before.
            if all.last() != Some(&lane) {
                all.push(lane);
            }
        }
        all.sort_unstable();
        all.dedup();
        lanes.all = all;
        lanes
    }

    /// The lane of an event.
    pub(super) fn of(&self, event: &Event) -> Lane {
        let pool = event.pool_id.unwrap_or_else(|| match self.private.range(..=event.address).next_back() {
            Some((_, &(end, pool))) if event.address < end => pool,
            _ => DEFAULT,
        });
        Lane { pool, stream: event.stream }
    }
}
