//! The rules P1 to P5 of [`pool`](super::pool), one function each.

use std::collections::BTreeMap;

use super::block::{Origin, State};
use super::pool::PoolState;
use super::segment::Segment;
use super::size::class;

impl PoolState {
    /// Stops with the number of the first rule that does not hold.
    pub(super) fn check_invariants(&self) {
        self.check_p1_apart();
        self.check_p2_cached();
        self.check_p3_events();
        self.check_p4_statistics();
        self.check_p5_segment();
    }

    fn check_p1_apart(&self) {
        let mut end = 0;
        for (at, block) in &self.blocks {
            assert!(end <= *at as u64, "P1: {block:?} at {at:#x} begins before {end:#x}");
            end = *at as u64 + block.bytes;
        }
    }

    fn check_p2_cached(&self) {
        let mut listed = BTreeMap::new();
        for (list, at) in self.cached.iter() {
            assert!(listed.insert(at, list).is_none(), "P2: {at:#x} is listed twice");
        }
        for (at, block) in &self.blocks {
            let is_cached = block.state == State::Cached;
            let expected = is_cached.then(|| class(block.bytes));
            assert_eq!(listed.remove(at), expected, "P2: {block:?}");
            assert!(!is_cached || (block.streams.is_empty() && block.events == 0), "P2: {block:?} is cached");
        }
        assert!(listed.is_empty(), "P2: cached blocks that are gone");
    }

    fn check_p3_events(&self) {
        let mut queued: BTreeMap<usize, u32> = BTreeMap::new();
        for (_, at) in self.queues.iter().flat_map(|(_, queue)| queue) {
            *queued.entry(*at).or_default() += 1;
        }
        for (at, block) in &self.blocks {
            assert_eq!(block.events, queued.remove(at).unwrap_or(0), "P3: {block:?}");
            let listed = self.unrecorded.iter().chain(&self.stranded).filter(|waiting| *waiting == at);
            let has_streams = block.state == State::Waiting && !block.streams.is_empty();
            assert_eq!(listed.count(), usize::from(has_streams), "P3: {block:?} is tried again");
        }
        assert!(queued.is_empty(), "P3: events of blocks that are gone");
    }

    fn check_p4_statistics(&self) {
        let (mut all, mut active) = ((0, 0), (0, 0));
        for block in self.blocks.values() {
            let bytes = block.bytes as i64;
            all = (all.0 + 1, all.1 + bytes);
            if block.state != State::Cached {
                active = (active.0 + 1, active.1 + bytes);
            }
        }
        let stats = &self.stats;
        assert_eq!((stats.allocations.current, stats.allocated_bytes.current), all, "P4");
        assert_eq!((stats.active_requests.current, stats.active_bytes.current), active, "P4");
    }

    fn check_p5_segment(&self) {
        let cut = match self.segment {
            Segment::Reserved { base, used, .. } => base as u64..base as u64 + used,
            _ => 0..0,
        };
        for (at, block) in self.blocks.iter().filter(|(_, block)| block.origin == Origin::Segment) {
            let inside = cut.contains(&(*at as u64)) && *at as u64 + block.bytes <= cut.end;
            assert!(inside, "P5: {block:?} at {at:#x}");
        }
    }
}
