//! [`Pools`]: what a recording says of the pools that blocks come from.
//!
//! Where it starts empty it says all. In a history that starts in a running process the sizes of some blocks are
//! open, and in the order of registration the ages of its segments are: a pool with such a block is *open*.
//! Where its decisions agree they count as such; from the first that does not the pool is *lost*, since nothing
//! says who is right, and the rest of it counts as not determined. Private pools are lost from the start: there
//! are none here.

use std::collections::HashMap;

use c10_cuda::OrderOfEquals;

use super::growable::Growable;
use super::lane::{Lane, Lanes};
use crate::snapshot::{Action, AllocatorSettings, Event, InitialState};

/// The largest block of a small pool (`kSmallSize`), in bytes.
const SMALL_SIZE: u64 = 1 << 20;

/// The segments of a small pool (`kSmallBuffer`), in bytes.
pub(super) const SMALL_BUFFER: u64 = 2 << 20;

/// A pool of the allocator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pool {
    pub(super) lane: Lane,
    pub(super) is_small: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Open,
    Lost,
}

/// The pools of a history.
pub(super) struct Pools<'a> {
    lanes: &'a Lanes,
    growable: &'a Growable,
    settings: &'a AllocatorSettings,
    /// Of pools that are not wholly known.
    knowledge: HashMap<Pool, Knowledge>,
}

impl<'a> Pools<'a> {
    pub(super) fn new(
        initial: &InitialState,
        lanes: &'a Lanes,
        growable: &'a Growable,
        settings: &'a AllocatorSettings,
        order: OrderOfEquals,
    ) -> Self {
        let mut knowledge = HashMap::new();
        if lanes.has_guesses {
            let both = |lane: &Lane| [true, false].map(|is_small| Pool { lane: *lane, is_small });
            knowledge.extend(lanes.all.iter().flat_map(both).map(|pool| (pool, Knowledge::Open)));
        }
        for segment in &initial.segments {
            let ages = order == OrderOfEquals::Registration;
            if ages || segment.is_expandable || segment.blocks.iter().any(|block| !block.size_is_known) {
                let lane = Lane { pool: segment.pool_id, stream: segment.stream };
                knowledge.insert(Pool { lane, is_small: segment.is_small }, Knowledge::Open);
            }
        }
        Self { lanes, growable, settings, knowledge }
    }

    /// The pool that serves a request.
    pub(super) fn of_request(&self, event: &Event) -> Pool {
        let rounded = self.settings.round_size(event.size);
        Pool { lane: self.lanes.of(event), is_small: rounded.is_some_and(|size| size <= SMALL_SIZE) }
    }

    /// The pool that a segment belongs to.
    pub(super) fn of_segment(&self, event: &Event) -> Pool {
        let is_small = match event.action {
            Action::SegmentMap | Action::SegmentUnmap => self.growable.is_small(event.address),
            _ => event.size <= SMALL_BUFFER,
        };
        Pool { lane: self.lanes.of(event), is_small }
    }

    /// Whether what the pool does is not determined.
    pub(super) fn is_lost(&self, pool: Pool) -> bool {
        pool.lane.is_private() || self.knowledge.get(&pool) == Some(&Knowledge::Lost)
    }

    /// Gives up a pool that went another way than recorded. Whether the recording had left it open, so that this
    /// is no difference.
    pub(super) fn lose_if_open(&mut self, pool: Pool) -> bool {
        match self.knowledge.get_mut(&pool) {
            Some(knowledge) => *knowledge = Knowledge::Lost,
            None => return pool.lane.is_private(),
        }
        true
    }
}
