//! [`Pool`]: an allocator's blocks under their lock. The rules of the state:
//!
//! - **P1.** Blocks do not overlap.
//! - **P2.** A cached block stands once in the list of its class, and no other block does. It has no streams and no
//!   events.
//! - **P3.** A block's `events` is the number of its entries in the event queues. A cached block has none, and
//!   one that is out only of streams that have ended. A waiting block with streams left is listed once, in `unrecorded`
//!   or `stranded`.
//! - **P4.** The statistics are the sums over the blocks: all of them, and those that are not cached.
//! - **P5.** Blocks of the segment lie in the part of it that is cut off.
//!
//! `invariants.rs` checks them by these numbers, in debug builds whenever the lock is given up.
//!
//! Under the lock only the driver is called, and the clock. Memory is pinned without it: that takes long.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use super::block::{Block, Origin, State};
use super::classes::Classes;
use super::segment::Segment;
use super::size::max_cached;
use super::stats::HostStats;
use crate::captures::Captures;
use crate::config::PinnedConfig;
use crate::driver::{CaptureState, Driver, DriverError, StreamHandle};
use crate::event_queues::{EventQueues, IdleEvents};
use crate::runtime::Runtime;
use crate::stream::StreamUser;
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// What an allocator and its blocks that are out have in common.
pub(super) struct Pool {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) captures: Arc<Captures>,
    pub(super) config: PinnedConfig,
    state: Mutex<PoolState>,
}

/// What the lock guards.
#[derive(Debug, Default)]
pub(super) struct PoolState {
    /// By address.
    pub(super) blocks: BTreeMap<usize, Block>,
    pub(super) cached: Classes,
    pub(super) segment: Segment,
    /// Events that have not passed, by stream, in the order of their records. No queue is empty.
    pub(super) queues: EventQueues<usize>,
    pub(super) idle_events: IdleEvents,
    /// Waiting blocks whose record the driver refused, to be tried again.
    pub(super) unrecorded: Vec<usize>,
    /// Waiting blocks of streams that are gone. See Note [Streams that are gone] in `alloc/stream_use.rs`.
    pub(super) stranded: Vec<usize>,
    pub(super) stats: HostStats,
    pub(super) clock: Option<fn() -> u64>,
    pub(super) unreported: Option<DriverError>,
}

/// The state, locked.
pub(super) struct Locked<'a> {
    pub(super) pool: &'a Pool,
    state: MutexGuard<'a, PoolState>,
}

impl Pool {
    pub(super) fn new(runtime: &Runtime, config: PinnedConfig) -> Self {
        let (driver, captures) = (Arc::clone(runtime.driver()), Arc::clone(runtime.captures()));
        Self { driver, captures, config, state: Mutex::default() }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { pool: self, state: lock(&self.state) }
    }

    /// A block of that size, handed out; `None` when there is no memory.
    pub(super) fn allocate(&self, size: u64) -> Result<Option<usize>, DriverError> {
        if let Some(at) = self.reuse(size)? {
            return Ok(Some(at));
        }
        self.reserve_segment()?;
        if let Some(at) = self.lock().cut_segment(size) {
            return Ok(Some(at));
        }
        if let Some(at) = self.pin(size)? {
            return Ok(Some(at));
        }
        // Differs from PyTorch: what is cached makes room before the request fails.
        self.empty_cache()?;
        let cached = self.lock().take_cached(size);
        if cached.is_some() { Ok(cached) } else { self.pin(size) }
    }

    /// A cached block, after looking which streams have passed.
    fn reuse(&self, size: u64) -> Result<Option<usize>, DriverError> {
        let mut locked = self.lock();
        if !self.config.use_background_threads {
            locked.process_events()?;
        }
        if let Some(at) = locked.take_cached(size) {
            return Ok(Some(at));
        }
        if self.config.use_background_threads {
            locked.process_events_of(size)?;
            return Ok(locked.take_cached(size));
        }
        Ok(None)
    }

    pub(super) fn process_events(&self) -> Result<(), DriverError> {
        self.lock().process_events()
    }

    /// Notes that a stream uses a block that is handed out; `false` when there is none at that address.
    pub(super) fn record(&self, at: usize, stream: StreamHandle) -> Result<bool, DriverError> {
        let captures = self.driver.capture_state(stream)? != CaptureState::None;
        let mut locked = self.lock();
        let Some(block) = locked.blocks.get_mut(&at).filter(|block| block.state == State::HandedOut) else {
            return Ok(false);
        };
        if captures {
            block.captured = true;
        } else if let Err(place) = block.streams.binary_search(&stream) {
            block.streams.insert(place, stream);
        }
        Ok(true)
    }

    /// Takes a block back from the program. What the driver refuses meanwhile is tried again later.
    pub(super) fn free(&self, at: usize) {
        let mut locked = self.lock();
        let block = locked.blocks.get_mut(&at).expect("a context is out, so its block is there");
        if block.captured {
            block.state = State::Withheld;
            return;
        }
        block.state = State::Waiting;
        if block.streams.is_empty() && block.events == 0 {
            locked.ready(at)
        } else {
            locked.insert_events(at)
        }
    }
}

impl StreamUser for Pool {
    fn before_end(&self, stream: StreamHandle) -> Result<(), DriverError> {
        self.lock().before_end(stream)
    }
}

impl Locked<'_> {
    /// Makes a waiting block that no stream uses any more available.
    pub(super) fn ready(&mut self, at: usize) {
        let surplus = max_cached(&self.pool.config);
        let Some(block) = self.blocks.get_mut(&at) else { return };
        let bytes = block.bytes;
        let goes = bytes > surplus && block.origin != Origin::Segment;
        block.state = State::Cached;
        self.cached.push(bytes, at);
        self.stats.active_requests.decrease(1);
        self.stats.active_bytes.decrease(bytes as i64);
        if goes && let Err(error) = self.release(at) {
            // It stays, as if it could be cached.
            self.unreported = Some(error);
        }
    }
}

impl PoolState {
    /// Hands out the newest cached block of the class that is large enough.
    pub(super) fn take_cached(&mut self, size: u64) -> Option<usize> {
        let at = self.cached.take(size)?;
        let block = self.blocks.get_mut(&at)?;
        block.state = State::HandedOut;
        let bytes = block.bytes as i64;
        self.stats.active_requests.increase(1);
        self.stats.active_bytes.increase(bytes);
        Some(at)
    }

    /// Hands out a part of the segment, if there is so much left.
    fn cut_segment(&mut self, size: u64) -> Option<usize> {
        let at = self.segment.cut(size)?;
        self.add(at, Block::new(size, Origin::Segment));
        Some(at)
    }

    /// Adds a new block, which is handed out.
    pub(super) fn add(&mut self, at: usize, block: Block) {
        let bytes = block.bytes as i64;
        self.blocks.insert(at, block);
        self.stats.allocations.increase(1);
        self.stats.allocated_bytes.increase(bytes);
        self.stats.active_requests.increase(1);
        self.stats.active_bytes.increase(bytes);
        self.stats.num_host_alloc += 1;
    }

    /// The block that holds an address.
    pub(super) fn block_at(&self, at: usize) -> Option<&Block> {
        let (base, block) = self.blocks.range(..=at).next_back()?;
        (((at - base) as u64) < block.bytes).then_some(block)
    }

    /// The time now, if there is a clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.map_or(0, crate::alloc::clock_now)
    }
}

impl Deref for Locked<'_> {
    type Target = PoolState;
    fn deref(&self) -> &PoolState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut PoolState {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !std::thread::panicking() {
            self.state.check_invariants();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("config", &self.config).finish_non_exhaustive()
    }
}
