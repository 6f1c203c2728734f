//! [`Device`]: one device's state under its lock. The rules of the state:
//!
//! - **I1.** The blocks of a segment tile it: linked both ways, addresses without gaps, of one stream, pool and
//!   registration. Every block belongs to one segment. Those of an expandable segment tile all its addresses; the
//!   mapped ones are just the pages that have memory behind them. A block in a window is alone: see S1 and S2 of
//!   `policy/stitched`.
//! - **I2.** No two neighbours are both free and alike mapped or unmapped.
//! - **I3.** A pool's free set holds the free mapped blocks of the pool, each under its present key, and no others;
//!   its unmapped set those that are not mapped. A block that is not free is mapped.
//! - **I4.** A block's `stream_uses.events` is the number of its entries in the event queues. A block that is handed
//!   out has them only of streams that have ended. A freed block with streams left in `stream_uses` is listed once, in `unrecorded`, `stranded` or
//!   `deferred`. `graph_uses` are uses of blocks that are not free. An entry of `raw` leads to a block that is handed
//!   out, at its address.
//! - **I5.** The statistics are the sums over the blocks and segments.
//! - **I6.** `total_allocated` is the sum of all mapped blocks but for pages that sleep, and what the driver has given
//!   and not got back.
//! - **I7.** A private pool is there while it has a use, a segment, a scope or an allocation under way, and is
//!   freeable when it has no use. Its `segments` are those of its blocks.
//! - **I8.** A block that is placed by a plan lies inside the arena, overlaps no other there, has no neighbours, is not
//!   free, and is in no free set.
//! - **I9.** Pages sleep only in segments of a pool that does. Nothing is allocated from such a pool.
//!
//! `invariants.rs` checks them by these numbers, in debug builds whenever the lock is given up.
//!
//! Under the lock only the driver is called, and the clock of a recorded history. Observers, callbacks, trackers,
//! providers of stacks and deleters run without it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};

use c10_core::DeviceIndex;

use super::block_table::BlockTable;
use super::context::ContextGate;
use super::deferred::DeferredBlocks;
use super::expandable::ExpandableTable;
use super::graph_pools::RetiredLaunches;
use super::hot::Hot;
use super::ids::{BlockId, PoolId};
use super::mempool_id::MempoolId;
use super::owner::OwnerTable;
use super::plain;
use super::policy::WindowTable;
use super::policy::planned::{Arena, Recorder};
use super::pool::PoolTable;
use super::raw_table::RawTable;
use super::stats::DeviceStats;
use super::trace::TraceAction;
use super::trace_ring::TraceRing;
use super::usage::Usage;
use crate::captures::Captures;
use crate::config::{Config, Placement};
use crate::driver::{DevicePtr, Driver, DriverError, NodeId, StreamHandle};
use crate::drop_errors::DropErrors;
use crate::event_queues::{EventQueues, IdleEvents};
use crate::graph::SeedStore;
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, MutexGuard, lock_busy};

/// A device of an allocator. Lives while the allocator does, and while blocks are handed out.
pub(crate) struct Device {
    pub(crate) index: DeviceIndex,
    pub(crate) driver: Arc<dyn Driver>,
    /// The runtime whose current streams count, by its number: memory outlives runtimes.
    pub(crate) runtime: u64,
    /// The captures of the runtime.
    pub(crate) captures: Arc<Captures>,
    /// Where errors of its end go.
    pub(crate) drop_errors: Arc<DropErrors>,
    /// Whether the driver's witness wants to know of blocks.
    pub(crate) watched: bool,
    /// Who says where the program is. Asked before the lock is taken.
    pub(crate) contexts: ContextGate,
    /// Where graphs read seeds from, as far as none does.
    pub(crate) seeds: Arc<SeedStore>,
    state: Apart<Mutex<DeviceState>>,
}

/// A value on cache lines of its own, two at a time as processors fetch them: what is beside it is read by threads
/// that do not hold the lock.
#[repr(align(128))]
struct Apart<T>(T);

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) index: DeviceIndex,
    pub(crate) config: Config,
    pub(crate) blocks: BlockTable,
    pub(crate) pools: PoolTable,
    pub(crate) expandable: ExpandableTable,
    pub(crate) windows: WindowTable,
    /// What `usage` does not count of the statistics.
    pub(crate) stats: DeviceStats,
    pub(crate) usage: Usage,
    /// The largest `total_allocated` that is allowed, where a memory fraction is set.
    pub(crate) limit: Option<u64>,
    /// The fraction that set it.
    pub(crate) fraction: f64,
    /// Bytes of all segments.
    pub(crate) total_allocated: u64,
    pub(crate) next_registration: u64,
    /// Events of freed blocks, by the stream they were recorded on, in order.
    /// A stream that had some is likely to have more: its queue stays until all events are waited for.
    pub(crate) event_queues: EventQueues<BlockId>,
    /// How many events the queues hold.
    pub(crate) queued_events: usize,
    /// Freed blocks whose events could not be recorded; tried again.
    pub(crate) unrecorded: Vec<BlockId>,
    /// Freed blocks that a stream used which is gone. See Note [Streams that are gone].
    pub(crate) stranded: Vec<BlockId>,
    /// Freed blocks that wait for the end of a capture. See Note [Captures].
    pub(crate) deferred: DeferredBlocks,
    /// The uses of blocks that captures have recorded; sorted out when the capture is over.
    pub(crate) graph_uses: BTreeMap<BlockId, Vec<StreamHandle>>,
    /// Pools that captures keep beside their own, by the capture.
    pub(crate) retained: BTreeMap<u64, Vec<MempoolId>>,
    /// See Note [Launches of graphs].
    pub(crate) retired: Vec<RetiredLaunches>,
    /// The nodes of a capture that the next node of a stream follows, as far as they were looked for.
    pub(crate) visited: BTreeMap<(u64, StreamHandle), BTreeSet<NodeId>>,
    /// How many captures are under way on this device.
    pub(crate) active_captures: u32,
    pub(crate) idle_events: IdleEvents,
    /// The blocks that the raw calls have handed out, by address.
    pub(crate) raw: RawTable,
    /// The plan at work, where there is one.
    pub(crate) arena: Option<Arena>,
    /// Writes down what is asked for, while that is wanted.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) trace: TraceRing,
    pub(crate) owners: OwnerTable,
    /// Contexts handed out and not yet ended. While there are any, `keepalive` holds the device. It also does
    /// while the allocator lives, once it has handed one out.
    pub(crate) owned: usize,
    pub(crate) keepalive: Option<Arc<Device>>,
    /// Whether the allocator has ended.
    pub(crate) is_closed: bool,
    /// See Note [Hot blocks].
    pub(crate) hot: Option<Hot>,
    /// Whether nothing of the configuration makes requests other than plain, and whether nothing else does either.
    /// See Note [Plain requests].
    pub(crate) is_ordinary: bool,
    pub(crate) is_plain: bool,
    /// The last driver error that a free could not return.
    pub(crate) unreported: Option<DriverError>,
    #[cfg(debug_assertions)]
    pub(crate) steps: u64,
}

impl Device {
    pub(crate) fn new(index: DeviceIndex, runtime: &Runtime, mut config: Config) -> Self {
        // Its memory is of expandable segments.
        config.expandable_segments |= config.placement == Placement::Stitched;
        let (order, is_ordinary) = (config.order_of_equals, plain::is_ordinary(&config));
        let max_split_size = config.max_split_size.map_or(-1, |size| size as i64);
        let arena = match &config.placement {
            Placement::Exact | Placement::Stitched => None,
            Placement::Planned(plan) => Some(Arena::new(Arc::clone(plan))),
        };
        let state = DeviceState {
            index,
            config,
            blocks: BlockTable::default(),
            pools: PoolTable::new(order),
            expandable: ExpandableTable::default(),
            windows: WindowTable::default(),
            stats: DeviceStats { max_split_size, ..DeviceStats::default() },
            usage: Usage::default(),
            limit: None,
            fraction: 1.0,
            total_allocated: 0,
            next_registration: 0,
            event_queues: Vec::new(),
            queued_events: 0,
            unrecorded: Vec::new(),
            stranded: Vec::new(),
            deferred: DeferredBlocks::default(),
            graph_uses: BTreeMap::new(),
            retained: BTreeMap::new(),
            retired: Vec::new(),
            visited: BTreeMap::new(),
            active_captures: 0,
            idle_events: IdleEvents::default(),
            raw: RawTable::default(),
            arena,
            recorder: None,
            trace: TraceRing::default(),
            owners: OwnerTable::default(),
            owned: 0,
            keepalive: None,
            is_closed: false,
            hot: None,
            is_ordinary,
            is_plain: false,
            unreported: None,
            #[cfg(debug_assertions)]
            steps: 0,
        };
        let (captures, drop_errors) = (runtime.captures(), Arc::clone(runtime.drop_errors()));
        let (driver, runtime) = (Arc::clone(runtime.driver()), runtime.id());
        let watched = driver.witness().is_some_and(|witness| witness.watches());
        let (contexts, seeds) = (ContextGate::default(), Arc::default());
        let (state, captures) = (Apart(Mutex::new(state)), Arc::clone(captures));
        Self { index, driver, runtime, captures, drop_errors, watched, contexts, seeds, state }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        let mut locked = self.settled(self.lock_unsettled());
        locked.looks = true;
        locked
    }

    /// The state for the quick paths: a block may be parked. See Note [Hot blocks].
    #[inline]
    pub(crate) fn lock_unsettled(&self) -> MutexGuard<'_, DeviceState> {
        lock_busy(&self.state.0)
    }

    /// The state for whoever allocates or frees, and changes nothing of what [`DeviceState::look`] looks at.
    #[inline]
    pub(crate) fn settled<'a>(&'a self, mut guard: MutexGuard<'a, DeviceState>) -> Locked<'a> {
        guard.settle();
        self.unsettled(guard)
    }

    /// The state for the quick paths that call the driver.
    #[inline]
    pub(crate) fn unsettled<'a>(&'a self, guard: MutexGuard<'a, DeviceState>) -> Locked<'a> {
        Locked { device: self, guard: Some(guard), called: Cell::new(false), has_polled: false, looks: false }
    }

    /// Says that the allocator has ended: from here on only what is handed out keeps the device.
    pub(crate) fn close(&self) {
        let mut locked = self.lock();
        locked.is_closed = true;
        // Nobody is left who could say that they have ended.
        let captures = std::mem::take(&mut locked.active_captures);
        let last = if locked.owned == 0 { locked.keepalive.take() } else { None };
        drop(locked);
        (0..captures).for_each(|_| self.captures.end());
        last.into_iter().for_each(Self::let_go);
    }

    /// Gives up a reference that may be the last. While a capture is under way, which the device's end could spoil,
    /// that waits for its end.
    pub(crate) fn let_go(self: Arc<Self>) {
        let captures = Arc::clone(&self.captures);
        captures.when_over(move || drop(self));
    }
}

impl Drop for Device {
    /// Gives all segments and events back. No block is handed out any more.
    fn drop(&mut self) {
        let mut locked = self.lock();
        // A driver that is gone or refuses keeps its memory.
        let _relaxed = locked.relaxed();
        if locked.wait_for_launches(None).is_err() {
            self.drop_errors.note(self.driver.device_synchronize(self.index));
        }
        if locked.synchronize_and_free_events(None).is_err() {
            self.drop_errors.note(locked.synchronize_devices());
        }
        self.drop_errors.note(locked.release_all_blocks());
        self.drop_errors.note(locked.release_unmapped_segments());
        locked.expandable.free_retired(&*self.driver);
        locked.expandable.settle(&*self.driver);
        let launched = std::mem::take(&mut locked.retired).into_iter().flat_map(RetiredLaunches::into_events);
        let launched = launched.collect::<Vec<_>>();
        self.drop_errors.note(self.seeds.clear(&*self.driver));
        let idle = launched.into_iter().chain(locked.idle_events.take()).collect::<Vec<_>>();
        let queued = locked.event_queues.iter().flat_map(|(_, queue)| queue).map(|(event, _)| *event);
        for event in idle.into_iter().chain(queued) {
            self.drop_errors.note(self.driver.event_destroy(event));
        }
    }
}

impl fmt::Debug for Device {
    /// Not the state: it is long, and printing it would take the lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("index", &self.index).finish_non_exhaustive()
    }
}

impl DeviceState {
    pub(crate) fn stream(&self, raw: u64) -> StreamHandle {
        StreamHandle { device: self.index, raw }
    }

    /// All statistics.
    pub(crate) fn device_stats(&self) -> DeviceStats {
        let mut stats = self.stats.clone();
        self.usage.fill(&mut stats);
        stats
    }

    /// The invariants, in debug builds: at every step while blocks are few, at every 64th when they are many.
    #[inline]
    pub(crate) fn check(&mut self) {
        #[cfg(debug_assertions)]
        if !std::thread::panicking() {
            self.steps += 1;
            if self.blocks.len() <= 64 || self.steps.is_multiple_of(64) {
                self.check_invariants();
            }
        }
    }

    /// Records what happened to a range of a pool.
    #[inline]
    pub(crate) fn record(&mut self, action: TraceAction, pool: PoolId, address: u64, size: u64, stream: u64) {
        if let Some(recorder) = &mut self.recorder
            && pool.owner == 0
        {
            recorder.note(action, address, size, stream);
        }
        if self.trace.wants(action) {
            self.record_of(action, self.pools.id_of(pool), address, size, stream);
        }
    }

    pub(crate) fn record_of(
        &mut self,
        action: TraceAction,
        pool: MempoolId,
        address: u64,
        size: u64,
        stream: u64,
    ) {
        let stream = self.stream(stream);
        self.trace.record(action, pool, address, size, stream);
    }
}

/// A device's state, locked.
pub(crate) struct Locked<'a> {
    pub(crate) device: &'a Device,
    /// `None` only inside `unlocked`.
    guard: Option<MutexGuard<'a, DeviceState>>,
    /// Whether the driver was called: work may have run then, and have left what it owned.
    called: Cell<bool>,
    /// Whether this call has looked already which blocks have become free.
    pub(crate) has_polled: bool,
    /// Whether whether requests are plain may have changed, where they are.
    looks: bool,
}

impl<'a> Locked<'a> {
    /// Gives the lock up for the length of a call. Nothing learnt before it holds after it.
    pub(crate) fn unlocked<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let caller = self.trace.caller();
        self.give_up();
        self.called.set(true);
        let result = call();
        self.guard = Some(lock_busy(&self.device.state.0));
        self.trace.set_caller(caller);
        self.settle();
        result
    }

    /// Takes it again where a call that panicked has left it given up.
    pub(crate) fn lock_again(&mut self) {
        self.guard.get_or_insert_with(|| lock_busy(&self.device.state.0));
    }

    /// Gives the lock up, and does what was left for then. The device may be gone after it.
    #[inline]
    fn give_up(&mut self) {
        let device = self.device;
        let Some(state) = &mut self.guard else { return };
        state.check();
        if state.trace.has_left() {
            self.give_up_and_deliver();
        } else {
            if self.looks || !state.is_plain {
                state.look(device);
            }
            self.guard = None;
        }
    }

    #[cold]
    fn give_up_and_deliver(&mut self) {
        let outbox = self.trace.leave();
        let device = self.device;
        self.look(device);
        self.guard = None;
        if let Some(outbox) = outbox {
            outbox.deliver();
        }
    }

    pub(crate) fn driver(&self) -> &'a dyn Driver {
        self.called.set(true);
        &*self.device.driver
    }

    /// Tells a driver that watches of a block that is handed out.
    #[inline]
    pub(crate) fn tell_handed_out(&self, id: BlockId) {
        if self.device.watched
            && let Some(witness) = self.device.driver.witness()
        {
            let block = &self.blocks[id];
            witness.handed_out(DevicePtr(block.ptr), block.requested, self.stream(block.stream));
        }
    }

    /// Tells it of one that is taken back.
    #[inline]
    pub(crate) fn tell_taken_back(&self, address: u64) {
        if self.device.watched
            && let Some(witness) = self.device.driver.witness()
        {
            witness.taken_back(DevicePtr(address));
        }
    }
}

impl Deref for Locked<'_> {
    type Target = DeviceState;

    fn deref(&self) -> &DeviceState {
        self.guard.as_ref().expect("the guard is away only inside `unlocked`")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut DeviceState {
        self.guard.as_mut().expect("the guard is away only inside `unlocked`")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Without the lock the device may end. What work owned may be memory of it, whose end takes the lock.
        let has_remains = self.called.get() && self.device.driver.has_remains();
        let driver = has_remains.then(|| Arc::clone(&self.device.driver));
        self.give_up();
        if let Some(driver) = driver {
            driver.settle();
        }
    }
}
