//! The block that was asked for last, handed out again with nothing searched.
//!
//! // Note [Hot blocks]
//! A program that asks for a block, gives it back, and asks for as much on the same stream gets the same block:
//! the free sets are again what they were when it was found, so that the search would end at the same place. As
//! long as nothing else happens on the device in between, the block need not be merged, searched for and split
//! each time. It is *parked*: the state still says that it is handed out, and how often it went and came is a
//! number. Whoever takes the lock by `Device::lock` finds the state *settled*, as if everything had been done
//! step by step; only the quick paths here look before that. A block that one other stream uses comes back with an
//! event on that stream, and *waits*: it goes out again once the event has passed.
//!
//! The rules: a block is hot when the last thing that happened on the device was that it was found in a free set
//! (or that it was parked and handed out again), while no history is recorded, no ages are counted, no freed block
//! waits for a stream, nothing captures or goes to a private pool, no race detector watches, no plan is served or
//! recorded, and the block is not one that `max_split_size` keeps whole. Where anybody observes the process's memory the quick paths are not taken.

use c10_core::reporting;

use super::allocate::Request;
use super::device::{DeviceState, Locked};
use super::ids::BlockId;
use super::size::REQUEST_CAP;
use crate::driver::{DriverError, EventHandle, StreamHandle};

/// Who holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A `DataPtr`.
    Owner,
    /// Whoever has the address.
    Raw,
}

/// The hot block of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    id: BlockId,
    ptr: u64,
    /// What it was asked for with.
    requested: u64,
    stream: u64,
    /// What handing it out added to `inactive_split` and to `inactive_split_bytes`.
    split: (i64, i64),
    /// How often it has come back and gone out again, uncounted so far.
    rounds: i64,
    holder: Holder,
    /// Whether a stream was named since that uses it.
    is_used: bool,
    place: Place,
}

/// Where a hot block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Out,
    /// It has come back, and is free.
    Parked,
    /// It has come back, and waits for what a stream held then.
    Waits {
        event: EventHandle,
        on: StreamHandle,
    },
}

impl Hot {
    /// A block that was just found in a free set and handed out, which changed the two statistics by `split`.
    #[inline]
    pub(crate) fn new(
        id: BlockId,
        ptr: u64,
        requested: u64,
        stream: u64,
        split: (i64, i64),
        holder: Holder,
    ) -> Self {
        Self { id, ptr, requested, stream, split, rounds: 0, holder, is_used: false, place: Place::Out }
    }

    #[inline]
    fn is_for(&self, requested: u64, stream: u64, holder: Holder) -> bool {
        self.requested == requested && self.stream == stream && self.holder == holder
    }

    #[inline]
    fn go_out(&mut self) -> (BlockId, u64) {
        self.place = Place::Out;
        self.rounds += 1;
        (self.id, self.ptr)
    }
}

impl Locked<'_> {
    /// Takes the block in a slot back from its owner, which one other stream uses, to wait for that stream. Where it is
    /// not so simple the state is settled, and it says that it did not.
    pub(crate) fn free_used(&mut self, index: u32) -> bool {
        let is_hot = self.is_hot_and_used(index);
        if !is_hot {
            self.settle();
        }
        let (device, is_last) = (self.device, self.owned == 1 && self.is_closed);
        let is_simple = self.is_plain && !self.trace.is_on() && !is_last && !reporting::is_observed();
        let (id, block) = self.blocks.at(index);
        let (true, &[on]) = (is_simple, &block.stream_uses[..]) else {
            self.settle();
            return false;
        };
        let Some(_quiet) = device.captures.quiet() else {
            self.settle();
            return false;
        };
        self.owned -= 1;
        let recorded = self.record_event(on);
        match (recorded, &mut self.hot) {
            (Ok(event), Some(hot)) => {
                hot.is_used = false;
                hot.place = Place::Waits { event, on };
                self.blocks.block_mut(index).stream_uses.clear();
            }
            (Ok(event), None) => {
                self.blocks.block_mut(index).stream_uses.clear();
                self.end_hold(id);
                self.wait_for(id, on, event);
            }
            (Err(error), _) => {
                self.settle();
                self.end_hold(id);
                self.refuse_event(id, error);
            }
        }
        true
    }

    /// A block and its address for a plain request while blocks wait for streams: the hot one, if the request is the
    /// one it was found for and what it waited for has passed, or another that is free. The state is settled where it
    /// gives none.
    ///
    /// # Errors
    /// What the driver reports of the events.
    pub(crate) fn take_waited(
        &mut self,
        requested: u64,
        stream: u64,
    ) -> Result<Option<(BlockId, u64)>, DriverError> {
        let device = self.device;
        let is_simple = self.is_plain && requested < REQUEST_CAP && !reporting::is_observed();
        let quiet = if is_simple { device.captures.quiet() } else { None };
        if quiet.is_none() {
            self.settle();
            return Ok(None);
        }
        let is_it = |hot: &&Hot| hot.is_for(requested, stream, Holder::Owner);
        if let Some(Place::Waits { event, .. }) = self.hot.as_ref().filter(is_it).map(|hot| hot.place) {
            let passed = self.driver().event_query(event);
            if let Ok(true) = passed {
                self.idle_events.keep(event);
                return Ok(self.hot.as_mut().map(Hot::go_out));
            }
            // It is the only one that waits, so that there is nothing more to look at.
            self.settle();
            passed?;
        } else {
            self.settle();
            self.process_events()?;
        }
        drop(quiet);
        self.has_polled = true;
        Ok(self.malloc_plain(requested, stream))
    }

    /// Notes that a block was found in a free set for the request and is handed out; `split_before` are the two
    /// statistics before it was.
    #[inline]
    pub(crate) fn set_hot(&mut self, id: BlockId, request: &Request, split_before: (i64, i64)) {
        let is_unlike = self.counts_ages() || self.has_waiting() || self.is_scoped();
        let block = &self.blocks[id];
        let (ptr, is_whole) = (block.ptr, block.size >= self.config.max_split());
        // A plan, and who makes one, count every request.
        let is_counted = self.arena.is_some() || self.recorder.is_some();
        if is_unlike || self.device.watched || self.trace.is_on() || is_whole || is_counted {
            return;
        }
        let (count, bytes) = self.usage.split_now();
        let split = (count - split_before.0, bytes - split_before.1);
        self.hot = Some(Hot::new(id, ptr, request.requested, request.stream, split, Holder::Owner));
    }
}

impl DeviceState {
    /// Says that the block which was just handed out went to whoever has the address.
    #[inline]
    pub(crate) fn hold_raw(&mut self) {
        if let Some(hot) = &mut self.hot {
            hot.holder = Holder::Raw;
        }
    }

    /// The parked block and its address, handed out again, if the request is the one it was found for.
    #[inline]
    pub(crate) fn take_parked(
        &mut self,
        requested: u64,
        stream: u64,
        holder: Holder,
    ) -> Option<(BlockId, u64)> {
        let hot = self.hot.as_mut()?;
        if !matches!(hot.place, Place::Parked)
            || !hot.is_for(requested, stream, holder)
            || reporting::is_observed()
        {
            return None;
        }
        Some(hot.go_out())
    }

    /// Parks the block of a slot, which its owner gives back, if it is the hot one.
    #[inline]
    pub(crate) fn park_owned(&mut self, index: u32) -> bool {
        let last = self.owned == 1 && self.is_closed;
        !last && self.park(|hot| hot.id.index == index && hot.holder == Holder::Owner) && {
            self.owned -= 1;
            true
        }
    }

    /// Parks the block at an address, which comes back by a raw call, if it is the hot one.
    #[inline]
    pub(crate) fn park_raw(&mut self, ptr: u64) -> bool {
        self.park(|hot| hot.ptr == ptr && hot.holder == Holder::Raw)
    }

    #[inline]
    fn park(&mut self, is_it: impl Fn(&Hot) -> bool) -> bool {
        match &mut self.hot {
            Some(hot)
                if matches!(hot.place, Place::Out)
                    && !hot.is_used
                    && is_it(hot)
                    && !reporting::is_observed() =>
            {
                hot.place = Place::Parked;
                true
            }
            _ => false,
        }
    }

    /// Notes that a stream uses the block in a slot, if it is the hot one and a `DataPtr` holds it. Says whether it
    /// is.
    #[inline]
    pub(crate) fn use_hot(&mut self, index: u32) -> bool {
        match &mut self.hot {
            Some(hot)
                if hot.id.index == index
                    && matches!(hot.place, Place::Out)
                    && hot.holder == Holder::Owner =>
            {
                hot.is_used = true;
                true
            }
            _ => false,
        }
    }

    /// Whether the hot block has come back and waits for a stream.
    #[inline]
    pub(crate) fn is_hot_waiting(&self) -> bool {
        self.hot.as_ref().is_some_and(|hot| matches!(hot.place, Place::Waits { .. }))
    }

    /// Whether the block in a slot is the hot one, and streams use it.
    #[inline]
    pub(crate) fn is_hot_and_used(&self, index: u32) -> bool {
        self.hot.as_ref().is_some_and(|hot| hot.is_used && hot.id.index == index)
    }

    /// Counts what the hot block did, and frees it if it is parked. There is none from here on.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(hot) = &self.hot {
            if !matches!(hot.place, Place::Out) || hot.rounds > 0 {
                self.settle_hot();
            }
            self.hot = None;
        }
    }

    #[cold]
    fn settle_hot(&mut self) {
        let Some(hot) = self.hot.take() else { return };
        let block = &self.blocks[hot.id];
        self.usage.repeat(block.pool.is_small, (block.size, block.requested), hot.split, hot.rounds);
        match hot.place {
            Place::Out => {}
            Place::Parked => {
                if hot.holder == Holder::Raw {
                    self.raw.remove(&mut self.blocks, hot.ptr);
                }
                self.free_unused(hot.id);
            }
            Place::Waits { event, on } => {
                self.end_hold(hot.id);
                self.wait_for(hot.id, on, event);
            }
        }
    }
}
