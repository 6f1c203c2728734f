//! [`TraceRing`]: the last entries of a device, the stacks of what it holds, and who is told of entries.
//!
//! Everything here is under the device's lock, but for the [`Outbox`]: what the lock's holder leaves for
//! afterwards. Trackers are the program's code, and so is the end of a stack; neither may run under the lock.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::address_map::AddressMap;
use super::context::{Context, RecordContext};
use super::mempool_id::MempoolId;
use super::trace::{CompileContext, History, TraceAction, TraceEntry, TraceTracker};
use crate::driver::StreamHandle;
use crate::sync::Arc;

/// The last entries of a device; records nothing until it is told to.
pub(crate) struct TraceRing {
    history: Option<History>,
    entries: VecDeque<TraceEntry>,
    user_metadata: Option<Arc<str>>,
    trackers: Vec<TraceTracker>,
    /// Those that are told of segments alone: with them nothing is on.
    of_segments: Vec<TraceTracker>,
    /// Where the program was that holds the lock.
    caller: Option<Context>,
    /// By the addresses of blocks that are not free.
    blocks: AddressMap<Context>,
    /// By the first addresses of segments and of mapped ranges.
    segments: AddressMap<Context>,
    outbox: Outbox,
    /// Whether any entry may have a stack.
    has_contexts: bool,
    /// Whether any of the above is wanted: what is asked on every call.
    is_on: bool,
    /// Whether entries are all that there is: no stacks, no trackers, nothing left for afterwards.
    is_quiet: bool,
}

/// What is done once the lock is given up.
#[derive(Default)]
pub(crate) struct Outbox {
    entries: Vec<TraceEntry>,
    trackers: Vec<TraceTracker>,
    of_segments: Vec<TraceTracker>,
    ended: Vec<Context>,
}

impl Default for TraceRing {
    fn default() -> Self {
        Self {
            history: None,
            entries: VecDeque::new(),
            user_metadata: None,
            trackers: Vec::new(),
            of_segments: Vec::new(),
            caller: None,
            blocks: AddressMap::default(),
            segments: AddressMap::default(),
            outbox: Outbox::default(),
            has_contexts: false,
            is_on: false,
            is_quiet: true,
        }
    }
}

impl TraceRing {
    /// Starts to record as `history` says, or stops and forgets. Stacks of what is held stay until it is freed.
    pub(crate) fn set(&mut self, history: Option<History>) {
        if history.as_ref().is_none_or(|h| h.clear) {
            self.drop_first(self.entries.len());
            self.has_contexts = false;
        }
        let history = history.map(|h| History { max_entries: h.max_entries.max(1), ..h });
        if let Some(history) = &history {
            self.drop_first(self.entries.len().saturating_sub(history.max_entries));
        }
        self.history = history;
        self.look();
    }

    /// Whether anything is wanted of every call.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether entries of an action are.
    #[inline]
    pub(crate) fn wants(&self, action: TraceAction) -> bool {
        self.is_on || self.tells_of(action)
    }

    /// Whether there may be something to be done once the lock is given up.
    #[inline]
    pub(crate) fn has_left(&self) -> bool {
        self.is_on || !self.outbox.entries.is_empty()
    }

    /// Whether a tracker of segments is told of an action.
    #[inline]
    fn tells_of(&self, action: TraceAction) -> bool {
        action.is_of_segments() && !self.of_segments.is_empty()
    }

    /// Whether entries are recorded without stacks and told to nobody, or nothing is recorded.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// The oldest first.
    pub(crate) fn entries(&self) -> Vec<TraceEntry> {
        self.entries.iter().cloned().collect()
    }

    /// The stack of the block at an address that is not free.
    pub(crate) fn block_context(&self, address: u64) -> Option<&Context> {
        self.blocks.get(&address)
    }

    /// The stack of the segment or mapped range that begins at an address.
    pub(crate) fn segment_context(&self, address: u64) -> Option<&Context> {
        self.segments.get(&address)
    }

    /// Says where the program is that has taken the lock.
    #[inline]
    pub(crate) fn set_caller(&mut self, caller: Option<Context>) {
        if caller.is_some() {
            let before = mem::replace(&mut self.caller, caller);
            self.outbox.ended.extend(before);
            (self.is_on, self.is_quiet) = (true, false);
        }
    }

    /// Where the program is, for the time that the lock is given up within a call.
    pub(crate) fn caller(&self) -> Option<Context> {
        self.caller.clone()
    }

    pub(crate) fn set_user_metadata(&mut self, metadata: Option<Arc<str>>) {
        self.user_metadata = metadata;
    }

    pub(crate) fn attach(&mut self, tracker: TraceTracker) {
        self.trackers.push(tracker);
        self.look();
    }

    pub(crate) fn attach_to_segments(&mut self, tracker: TraceTracker) {
        self.of_segments.push(tracker);
    }

    pub(crate) fn record(
        &mut self,
        action: TraceAction,
        pool: MempoolId,
        address: u64,
        size: u64,
        stream: StreamHandle,
    ) {
        if self.is_quiet && !self.tells_of(action) {
            self.note_quietly(action, (pool, stream), address, size);
        } else {
            let metadata = self.user_metadata.clone();
            self.note(action, (pool, stream), address, size, metadata);
        }
    }

    /// As [`note`](Self::note), where there are neither stacks nor trackers.
    fn note_quietly(
        &mut self,
        action: TraceAction,
        (pool, stream): (MempoolId, StreamHandle),
        address: u64,
        size: u64,
    ) {
        let Some(history) = &self.history else { return };
        if !history.skip_actions.is_empty() && history.skip_actions.contains(&action) {
            return;
        }
        let time_us = history.clock.map_or(0, now);
        if self.entries.len() >= history.max_entries {
            self.entries.pop_front();
        }
        self.entries.push_back(TraceEntry {
            action,
            address,
            size,
            stream,
            pool,
            time_us,
            context: None,
            compile_context: CompileContext::current(),
            user_metadata: self.user_metadata.clone(),
        });
    }

    /// A remark of the program.
    pub(crate) fn annotate(&mut self, text: &str, stream: StreamHandle) {
        if self.is_on {
            self.note(TraceAction::Annotate, (MempoolId::DEFAULT, stream), 0, 0, Some(text.into()));
        }
    }

    fn note(
        &mut self,
        action: TraceAction,
        (pool, stream): (MempoolId, StreamHandle),
        address: u64,
        size: u64,
        user_metadata: Option<Arc<str>>,
    ) {
        let context = self.context_of(action, address);
        let is_kept = self.history.as_ref().is_some_and(|h| !h.skip_actions.contains(&action));
        let is_told = !self.trackers.is_empty() || self.tells_of(action);
        if !is_kept && !is_told {
            self.outbox.ended.extend(context);
            return;
        }
        let level = self.history.as_ref().and_then(|h| h.contexts.as_ref()).map(|contexts| contexts.level);
        let (context, ended) =
            if level >= Some(RecordContext::Alloc) { (context, None) } else { (None, context) };
        self.outbox.ended.extend(ended);
        let time_us = self.history.as_ref().and_then(|h| h.clock).map_or(0, now);
        let compile_context = CompileContext::current();
        let entry = TraceEntry {
            action,
            address,
            size,
            stream,
            pool,
            time_us,
            context,
            compile_context,
            user_metadata,
        };
        if is_told {
            self.outbox.entries.push(entry.clone());
        }
        if is_kept {
            self.has_contexts |= entry.context.is_some();
            if self.history.as_ref().is_some_and(|h| self.entries.len() == h.max_entries) {
                let oldest = self.entries.pop_front();
                self.outbox.ended.extend(oldest.and_then(|oldest| oldest.context));
            }
            self.entries.push_back(entry);
        }
    }

    /// The stack that an entry has: the caller's, else that of what it frees. Keeps the stacks of what is held.
    fn context_of(&mut self, action: TraceAction, address: u64) -> Option<Context> {
        let caller = self.caller.clone();
        let held = match action {
            TraceAction::Alloc | TraceAction::SegmentAlloc | TraceAction::SegmentMap => {
                let map = if action == TraceAction::Alloc { &mut self.blocks } else { &mut self.segments };
                if let Some(caller) = &caller {
                    self.outbox.ended.extend(map.insert(address, caller.clone()));
                }
                return caller;
            }
            TraceAction::FreeRequested => self.blocks.get(&address).cloned(),
            TraceAction::FreeCompleted => self.blocks.remove(&address),
            TraceAction::SegmentFree | TraceAction::SegmentUnmap => self.segments.remove(&address),
            TraceAction::Oom | TraceAction::Annotate => return caller,
            TraceAction::Snapshot => None,
        };
        match (caller, held) {
            (None, held) => held,
            (caller, held) => {
                self.outbox.ended.extend(held);
                caller
            }
        }
    }

    /// What is to be done once the lock is given up, if there is anything.
    #[inline]
    pub(crate) fn leave(&mut self) -> Option<Outbox> {
        if self.has_left() { self.take_outbox() } else { None }
    }

    #[cold]
    fn take_outbox(&mut self) -> Option<Outbox> {
        self.outbox.ended.extend(self.caller.take());
        self.look();
        if self.outbox.entries.is_empty() && self.outbox.ended.is_empty() {
            return None;
        }
        let outbox = mem::take(&mut self.outbox);
        Some(Outbox { trackers: self.trackers.clone(), of_segments: self.of_segments.clone(), ..outbox })
    }

    fn look(&mut self) {
        self.is_on = self.history.is_some()
            || !self.trackers.is_empty()
            || !self.blocks.is_empty()
            || !self.segments.is_empty()
            || !self.outbox.ended.is_empty();
        self.is_quiet = self.trackers.is_empty()
            && !self.has_contexts
            && self.caller.is_none()
            && self.blocks.is_empty()
            && self.segments.is_empty()
            && self.outbox.ended.is_empty()
            && self.history.as_ref().is_none_or(|history| history.contexts.is_none());
    }

    fn drop_first(&mut self, count: usize) {
        let ended = self.entries.drain(..count).filter_map(|entry| entry.context);
        self.outbox.ended.extend(ended);
    }
}

impl Outbox {
    /// Tells the trackers, and lets the stacks go. Not to be called under a lock.
    pub(crate) fn deliver(self) {
        let quietly = |call: &mut dyn FnMut()| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
                // Its destructor may panic too.
                mem::forget(payload);
            }
        };
        for entry in &self.entries {
            let of_segments = self.of_segments.iter().filter(|_| entry.action.is_of_segments());
            for tracker in self.trackers.iter().chain(of_segments) {
                quietly(&mut || tracker(entry));
            }
        }
        for context in self.ended {
            let mut context = Some(context);
            quietly(&mut || drop(context.take()));
        }
    }
}

/// What a clock says; 0 when it panics: entries are made in deleters too, which may not unwind.
pub(crate) fn now(clock: fn() -> u64) -> u64 {
    catch_unwind(clock).unwrap_or_else(|payload| {
        // Its destructor may panic too.
        mem::forget(payload);
        0
    })
}

impl fmt::Debug for TraceRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRing")
            .field("history", &self.history)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}
