#![expect(unsafe_code, reason = "gives the segment back when nobody can have a part of it any more")]
//! Giving memory back: `empty_cache`, and the end of the pool.

use std::ptr::NonNull;

use super::block::{Block, Origin, State};
use super::pool::{Pool, PoolState};
use super::segment::Segment;
use crate::driver::DriverError;

impl Pool {
    /// Gives back all that is cached. The first error, after all has been tried.
    pub(super) fn empty_cache(&self) -> Result<(), DriverError> {
        let mut locked = self.lock();
        let mut result = locked.process_events();
        result = result.and(locked.synchronize_stranded());
        let cached: Vec<usize> = locked.cached.iter().map(|(_, at)| at).collect();
        for at in cached {
            if locked.blocks.get(&at).is_some_and(|block| block.origin != Origin::Segment) {
                result = result.and(locked.release(at));
            }
        }
        result
    }

    /// Waits for what still uses blocks, so that they can go. What cannot be waited for stays for ever.
    fn wait_for_all(&self) {
        let mut locked = self.lock();
        let _relaxed = self.captures.relaxed(&*self.driver);
        let queued: Vec<_> =
            locked.queues.iter().flat_map(|(_, queue)| queue.iter().map(|(e, _)| *e)).collect();
        for event in queued {
            let _ = self.driver.event_synchronize(event);
        }
        let _ = locked.process_events();
        let _ = locked.synchronize_stranded();
    }
}

impl PoolState {
    /// Forgets the segment, whose blocks are all cached, with them.
    fn forget_segment(&mut self) {
        self.segment = Segment::Missing;
        let cut =
            |(at, block): (&usize, &Block)| (block.origin == Origin::Segment).then_some((*at, block.bytes));
        let parts: Vec<_> = self.blocks.iter().filter_map(cut).collect();
        for (at, bytes) in parts {
            self.blocks.remove(&at);
            self.cached.remove(bytes, at);
            self.stats.allocations.decrease(1);
            self.stats.allocated_bytes.decrease(bytes as i64);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.wait_for_all();
        let _ = self.empty_cache();
        let mut locked = self.lock();
        for event in locked.idle_events.take() {
            // A driver that is gone has ended its events already.
            let _ = self.driver.event_destroy(event);
        }
        let in_use = |block: &Block| block.state != State::Cached && block.origin == Origin::Segment;
        let Segment::Reserved { base, .. } = locked.segment else { return };
        if locked.blocks.values().any(in_use) {
            return;
        }
        let ptr =
            NonNull::new(std::ptr::with_exposed_provenance_mut(base)).expect("no segment begins at null");
        let _relaxed = self.captures.relaxed(&*self.driver);
        // SAFETY: the driver gave the segment, and every block of it is cached: nobody uses it.
        let _ = unsafe { self.driver.host_free(ptr) };
        locked.forget_segment();
    }
}
