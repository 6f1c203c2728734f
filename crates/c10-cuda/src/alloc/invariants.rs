//! The rules I1 to I8 of [`device`](super::device), one function each.

use std::collections::HashMap;

use c10_core::stat::StatArray;

use super::block::Block;
use super::device::DeviceState;
use super::ids::BlockId;
use super::policy::planned::Arena;
use super::stats::DeviceStats;

impl DeviceState {
    /// Stops with the number of the first rule that does not hold.
    pub(crate) fn check_invariants(&self) {
        self.check_i1_segments();
        self.check_i2_merged();
        self.check_i3_free_sets();
        self.check_i4_events();
        self.check_i5_statistics();
        self.check_i6_total();
        self.check_windows();
        self.check_i7_pools();
        self.check_i8_placed();
    }

    fn heads(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks.iter().filter(|(_, block)| block.is_head())
    }

    fn check_i1_segments(&self) {
        let mut seen = 0;
        for (id, head) in self.heads() {
            let (mut at, mut block) = (id, head);
            assert!(
                head.mapped || head.expandable.is_some(),
                "I1: {head:?} is of a segment that cannot grow"
            );
            self.check_i1_expandable(head);
            seen += 1;
            while let Some((next, after)) = self.blocks.next_of(block) {
                assert_eq!(after.prev, at.index, "I1: {block:?} and {after:?} are linked both ways");
                assert_eq!(after.ptr, block.end(), "I1: no gap between {block:?} and {after:?}");
                assert!(
                    after.stream == block.stream
                        && after.pool == block.pool
                        && after.expandable == block.expandable
                        && after.registration == block.registration,
                    "I1: {block:?} and {after:?} are of one segment"
                );
                (at, block) = (next, after);
                seen += 1;
            }
        }
        assert_eq!(seen, self.blocks.len(), "I1: every block belongs to a segment");
    }

    fn check_i1_expandable(&self, head: &Block) {
        let Some(expandable) = head.expandable else { return };
        let segment = &self.expandable[expandable];
        assert_eq!(head.ptr, segment.base(), "I1: {head:?} begins its segment");
        let (mut end, mut mapped) = (head.ptr, 0);
        let mut at = Some(head);
        while let Some(block) = at {
            end = block.end();
            if block.mapped {
                mapped += block.size;
            } else {
                let offset = block.ptr - segment.base();
                let whole =
                    offset.is_multiple_of(segment.page()) && block.size.is_multiple_of(segment.page());
                assert!(whole, "I1: {block:?} is of whole pages");
            }
            at = self.blocks.next_of(block).map(|(_, next)| next);
        }
        assert_eq!(end - segment.base(), segment.bytes(), "I1: the blocks of {head:?} tile all addresses");
        assert_eq!(mapped, segment.mapped_bytes(), "I1: what is mapped of the segment of {head:?}");
    }

    fn check_i2_merged(&self) {
        for (_, block) in self.blocks.iter() {
            let next = self.blocks.next_of(block);
            let joins = next.is_some_and(|(_, next)| next.is_free() && next.mapped == block.mapped);
            assert!(!(block.is_free() && joins), "I2: {block:?} should be one with the next");
        }
    }

    fn check_i3_free_sets(&self) {
        let mut free = 0;
        for (id, block) in self.blocks.iter() {
            let pool = &self.pools[block.pool];
            assert!(block.mapped || block.is_free(), "I3: {block:?} has no memory behind it");
            assert_eq!(
                pool.free.contains(&self.blocks, id),
                block.is_free() && block.mapped,
                "I3: {block:?}"
            );
            assert_eq!(pool.unmapped.contains(id, block), !block.mapped, "I3: {block:?}");
            free += usize::from(block.is_free());
        }
        let sets = self.pools.iter().map(|pool| pool.free.len(&self.blocks) + pool.unmapped.len());
        assert_eq!(sets.sum::<usize>(), free, "I3: the sets hold nothing else");
        let heads = self.heads().filter(|(_, head)| head.expandable.is_some()).count();
        assert_eq!(self.expandable.iter().count(), heads, "I1: every expandable segment has blocks");
    }

    fn check_i4_events(&self) {
        let mut queued: HashMap<BlockId, u32> = HashMap::new();
        for (_, id) in self.event_queues.iter().flat_map(|(_, queue)| queue) {
            *queued.entry(*id).or_default() += 1;
        }
        assert_eq!(queued.values().sum::<u32>() as usize, self.queued_events, "I4: the queues' length");
        let deferred = self.deferred.iter().map(|deferred| deferred.block);
        let mut listed: HashMap<BlockId, u32> = HashMap::new();
        for id in self.unrecorded.iter().chain(&self.stranded).copied().chain(deferred) {
            *listed.entry(id).or_default() += 1;
        }
        for (id, block) in self.blocks.iter() {
            let events = queued.remove(&id).unwrap_or(0);
            assert_eq!(block.stream_uses.events, events, "I4: {block:?}");
            let waits = !block.allocated && !block.stream_uses.is_empty();
            let listed = listed.get(&id).copied().unwrap_or(0);
            assert_eq!(u32::from(waits), listed, "I4: {block:?} waits for a record or the device");
        }
        for (until, blocks) in self.deferred.awaited() {
            let waiting = self.deferred.iter().filter(|deferred| deferred.until == *until);
            assert_eq!(waiting.count(), *blocks, "I4: blocks that wait for {until:?}");
        }
        assert!(queued.is_empty(), "I4: events of blocks that are gone");
        for id in self.graph_uses.keys() {
            let block = self.blocks.get(*id);
            assert!(block.is_some_and(|block| !block.is_free()), "I4: {block:?} is free and used by a graph");
        }
        for index in self.raw.iter(&self.blocks) {
            let block = self.blocks.block(index);
            assert!(block.allocated, "I4: {block:?} was given out");
            assert_eq!(
                self.raw.get(&self.blocks, block.ptr),
                Some(index),
                "I4: {block:?} is found by its address"
            );
        }
    }

    fn check_i5_statistics(&self) {
        let mut sums = DeviceStats::default();
        for (_, block) in self.blocks.iter() {
            let is_small = block.pool.is_small;
            let size = block.size as i64;
            if block.is_lent() {
                sums.reserved_bytes.increase(is_small, size);
                continue;
            }
            if block.allocated {
                sums.allocation.increase(is_small, 1);
                sums.allocated_bytes.increase(is_small, size);
            }
            if !block.mapped {
                continue;
            }
            if block.is_free() {
                if block.is_split() && block.expandable.is_none() {
                    sums.inactive_split.increase(is_small, 1);
                    sums.inactive_split_bytes.increase(is_small, size);
                }
            } else {
                sums.active.increase(is_small, 1);
                sums.active_bytes.increase(is_small, size);
                sums.requested_bytes.increase(is_small, block.requested as i64);
            }
            if block.is_in_window() || block.placed.is_some() {
                continue;
            }
            if block.is_head() && block.expandable.is_none() {
                sums.segment.increase(is_small, 1);
            }
            sums.reserved_bytes.increase(is_small, size);
            if block.pool.owner != 0 {
                let id = self.pools.id_of(block.pool);
                let of_pool = sums.reserved_bytes_by_private_pools.entry(id).or_default();
                of_pool.increase(is_small, size);
            }
        }
        for (_, head) in self.heads() {
            let Some(expandable) = head.expandable else { continue };
            let asleep = self.expandable[expandable].asleep_bytes() as i64;
            if asleep > 0 {
                let id = self.pools.id_of(head.pool);
                assert!(self.pools.owner(head.pool.owner).asleep.is_some(), "I9: {head:?} sleeps alone");
                sums.reserved_bytes.decrease(head.pool.is_small, asleep);
                let of_pool = sums.reserved_bytes_by_private_pools.entry(id).or_default();
                of_pool.decrease(head.pool.is_small, asleep);
            }
        }
        if let Some((start, end)) = self.arena.as_ref().and_then(Arena::range) {
            sums.segment.increase(false, 1);
            sums.reserved_bytes.increase(false, (end - start) as i64);
        }
        for ((name, kept), (_, sum)) in self.device_stats().arrays().into_iter().zip(sums.arrays()) {
            let current = |array: &StatArray| [array.all.current, array.small.current, array.large.current];
            assert_eq!(current(kept), current(sum), "I5: {name}");
        }
        for (id, kept) in &self.stats.reserved_bytes_by_private_pools {
            let sum = sums.reserved_bytes_by_private_pools.remove(id).unwrap_or_default();
            assert_eq!(kept.all.current, sum.all.current, "I5: bytes of the pool {id}");
        }
        assert!(sums.reserved_bytes_by_private_pools.is_empty(), "I5: bytes of pools that are not counted");
    }

    fn check_i7_pools(&self) {
        let mut segments: HashMap<u32, u64> = HashMap::new();
        for (_, head) in self.heads() {
            *segments.entry(head.pool.owner).or_default() += 1;
        }
        for (slot, owner) in self.pools.private() {
            let id = owner.id;
            assert_eq!(self.pools.find(id), Some(slot), "I7: the pool {id} is found by its name");
            assert_eq!(
                owner.use_count == 0,
                self.pools.freeable.contains(id),
                "I7: the pool {id} is freeable"
            );
            assert_eq!(owner.segments, segments.remove(&slot).unwrap_or(0), "I7: segments of {id}");
        }
        segments.remove(&0);
        assert!(segments.is_empty(), "I7: blocks of pools that are not there");
        for scope in &self.pools.scopes {
            assert!(self.pools.find(self.pools.owner(scope.owner).id) == Some(scope.owner), "I7: {scope:?}");
        }
    }

    fn check_i6_total(&self) {
        let is_own = |block: &Block| block.mapped && !block.is_in_window() && block.placed.is_none();
        let mapped = self.blocks.iter().filter(|(_, block)| is_own(block));
        let segments: u64 = mapped.map(|(_, block)| block.size).sum();
        let arena = self.arena.as_ref().and_then(Arena::range).map_or(0, |(start, end)| end - start);
        let asleep: u64 = self.expandable.iter().map(|(_, segment)| segment.asleep_bytes()).sum();
        assert_eq!(self.total_allocated, segments - asleep + arena, "I6");
    }

    fn check_i8_placed(&self) {
        let arena = self.arena.as_ref().and_then(Arena::range).unwrap_or((0, 0));
        let mut placed: Vec<_> =
            self.blocks.iter().map(|(_, block)| block).filter(|block| block.placed.is_some()).collect();
        placed.sort_unstable_by_key(|block| block.ptr);
        for block in &placed {
            assert!(arena.0 <= block.ptr && block.end() <= arena.1, "I8: {block:?} lies in {arena:x?}");
            assert!(!block.is_split() && !block.is_free() && block.mapped, "I8: {block:?} is held and alone");
        }
        for pair in placed.windows(2) {
            assert!(pair[0].end() <= pair[1].ptr, "I8: {:?} and {:?} overlap", pair[0], pair[1]);
        }
    }
}
