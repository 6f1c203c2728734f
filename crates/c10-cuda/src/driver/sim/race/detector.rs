//! [`Detector`]: looks at each item of work when it is issued.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::access::{Owner, Piece, Toucher};
use super::super::memory::Memory;
use super::super::report::{AccessFault, Touched};
use super::super::slab::Id;
use super::blocks::{Blocks, Standing};
use super::clock::{Epoch, VectorClock};
use super::frame::Origin;
use super::history::{History, Made};
use super::lines::Lines;
use super::report::{Race, RaceKind, Use};
use crate::driver::{DevicePtr, StreamHandle};

/// How many reports are kept: the first are the ones that explain the others.
const MAX_RACES: usize = 1_000;
/// How many ranges that went back to the driver are remembered, for reports.
const MAX_FREED: usize = 1_024;
/// How many cells the histories may have before the first sweep.
const MIN_SWEEP: usize = 4_096;

/// A memory whose bytes are told apart by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    /// What `malloc` gave at this address.
    Allocation(u64),
    Physical(Id),
    /// The host's memory, by address.
    Host,
}

impl Space {
    const fn of(piece: &Piece) -> Self {
        match piece.owner {
            Owner::Allocation(base) => Self::Allocation(base),
            Owner::Physical(id) => Self::Physical(id),
        }
    }
}

/// An item of work that is about to be issued.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver::sim) struct Issued {
    pub(in crate::driver::sim) stream: Id,
    pub(in crate::driver::sim) handle: StreamHandle,
    /// Its place on the stream.
    pub(in crate::driver::sim) place: u64,
    pub(in crate::driver::sim) name: &'static str,
}

/// The detector. See the head of [`race`](super).
#[derive(Debug)]
pub(in crate::driver::sim) struct Detector {
    pub(super) lines: Lines,
    pub(super) histories: BTreeMap<Space, History>,
    pub(super) blocks: Blocks,
    /// Ranges that went back to the driver, newest last.
    pub(super) freed: VecDeque<Arc<Use>>,
    /// What was over when a range of a pool was freed, by its first address.
    pub(super) pool_frees: BTreeMap<u64, VectorClock>,
    /// The call that is under way, from 1, and where it comes from.
    calls: u64,
    origin: Origin,
    races: Vec<Race>,
    /// How many cells there may be before the next sweep, and uses since the last count.
    sweep_at: usize,
    uses: usize,
}

impl Detector {
    pub(in crate::driver::sim) fn new() -> Self {
        Self {
            lines: Lines::new(),
            histories: BTreeMap::new(),
            blocks: Blocks::default(),
            freed: VecDeque::new(),
            pool_frees: BTreeMap::new(),
            calls: 0,
            origin: Origin::default(),
            races: Vec::new(),
            sweep_at: MIN_SWEEP,
            uses: 0,
        }
    }

    /// A call of the driver begins.
    pub(in crate::driver::sim) fn begin_call(&mut self, origin: Origin) {
        self.calls += 1;
        self.origin = origin;
    }

    /// What was found, oldest first.
    pub(in crate::driver::sim) fn races(&self) -> &[Race] {
        &self.races
    }

    pub(in crate::driver::sim) fn take_races(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.races)
    }

    /// Looks at what an item of device `who.device` uses, by the addresses of devices and of the host.
    pub(in crate::driver::sim) fn issue(
        &mut self,
        memory: &Memory,
        who: &Toucher,
        item: Issued,
        device: impl IntoIterator<Item = Touched>,
        host: impl IntoIterator<Item = Touched>,
    ) {
        let epoch = self.lines.advance(item.stream, item.handle.device);
        self.uses(memory, who, (epoch, false), item, device, host);
    }

    /// The same at a moment that is known. Of a graph's node the blocks have been looked at when it was captured.
    pub(super) fn uses(
        &mut self,
        memory: &Memory,
        who: &Toucher,
        (epoch, of_graph): (Epoch, bool),
        item: Issued,
        device: impl IntoIterator<Item = Touched>,
        host: impl IntoIterator<Item = Touched>,
    ) {
        let stream = Some((item.handle, item.place));
        let mut source = None;
        for range in device {
            let by = self.use_of(item.name, stream, range);
            self.touch_device(memory, who, (epoch, of_graph), &by);
            self.compare_ends(who, &mut source, by);
        }
        for range in host {
            let by = self.use_of(item.name, stream, range);
            self.compare_ends(who, &mut source, Arc::clone(&by));
            self.touch(Space::Host, (range.ptr.0, range.bytes), &Made { epoch, by, life: 0 });
        }
    }

    /// A copy's ends have no byte in common. Addresses of the host are no addresses of devices.
    fn compare_ends(&mut self, who: &Toucher, source: &mut Option<Arc<Use>>, by: Arc<Use>) {
        let end = |range: Touched| range.ptr.0.saturating_add(range.bytes);
        let overlaps = |first: &Arc<Use>| {
            let (first, second) = (first.range, by.range);
            first.ptr.0 < end(second) && second.ptr.0 < end(first)
        };
        match source {
            None if who.by_copy => *source = Some(by),
            Some(first) if overlaps(first) => {
                let first = Arc::clone(first);
                self.report(RaceKind::Overlap, Some(first), &by);
            }
            _ => {}
        }
    }

    /// Looks at what a node uses that is being captured: whether it lies in blocks that are handed out. What is not
    /// there may be when the graph is launched.
    pub(super) fn captured(&mut self, memory: &Memory, who: &Toucher, item: Issued, ranges: Vec<Touched>) {
        for range in ranges.into_iter().filter(|range| range.bytes != 0) {
            if memory.resolve(range.ptr, range.bytes, who).is_ok() {
                let by = self.use_of(item.name, Some((item.handle, item.place)), range);
                self.life_of(memory, &by);
            }
        }
    }

    /// Looks at a use of host memory by the host itself, now.
    pub(in crate::driver::sim) fn host_uses(&mut self, range: Touched) {
        let epoch = self.lines.advance_host();
        let by = self.use_of("access", None, range);
        self.touch(Space::Host, (range.ptr.0, range.bytes), &Made { epoch, by, life: 0 });
    }

    /// Rule O2, then O1.
    fn touch_device(
        &mut self,
        memory: &Memory,
        who: &Toucher,
        (epoch, of_graph): (Epoch, bool),
        by: &Arc<Use>,
    ) {
        let Touched { ptr, bytes, .. } = by.range;
        if bytes == 0 {
            return;
        }
        let pieces = match memory.resolve(ptr, bytes, who) {
            Ok(pieces) => pieces,
            Err(fault) => return self.not_there(memory, fault, by),
        };
        // What an allocator keeps for a graph it may have taken back, or handed out to another graph.
        let life = if of_graph { Some(0) } else { self.life_of(memory, by) };
        let Some(life) = life else { return };
        let made = Made { epoch, by: Arc::clone(by), life };
        for piece in &pieces {
            self.touch(Space::of(piece), (piece.offset, piece.bytes), &made);
        }
    }

    /// The life of the block that a use of live memory lies in. `None` when it lies in none that is handed out.
    fn life_of(&mut self, memory: &Memory, by: &Arc<Use>) -> Option<u64> {
        let Touched { ptr, bytes, .. } = by.range;
        // The memory is live, so that the range has an end and begins in a range of the driver.
        let range = memory.range_at(ptr.0).map_or(ptr.0, |(base, _)| base);
        let (kind, first) = match self.blocks.standing(range, ptr.0, ptr.0 + bytes) {
            Standing::Inside(life) => return Some(life),
            Standing::Beyond(block) => (RaceKind::OutOfBounds, Some(block)),
            Standing::After(free) => (RaceKind::UseAfterFree, Some(free)),
            Standing::Nowhere => (RaceKind::Foreign(AccessFault::NotLive), None),
        };
        self.report(kind, first, by);
        None
    }

    /// Rule O1.
    pub(super) fn touch(&mut self, space: Space, (from, bytes): (u64, u64), made: &Made) {
        let mut found = Vec::new();
        let history = self.histories.entry(space).or_default();
        let now = self.lines.clock(made.epoch.line);
        let to = from.saturating_add(bytes);
        if made.by.range.write {
            history.write(from, to, now, made, &mut found);
        } else {
            history.read(from, to, now, made, &mut found);
        }
        for first in found {
            let reused = first.life != 0 && made.life != 0 && first.life != made.life;
            let kind = match made.by.name {
                "free_async" => RaceKind::FreedUnderUse,
                _ if reused => RaceKind::Reused,
                _ => RaceKind::Unordered,
            };
            self.report(kind, Some(first.by), &made.by);
        }
        self.sweep_now_and_then();
    }

    /// Memory is not live, or not this device's: freed before, or nobody's.
    fn not_there(&mut self, memory: &Memory, fault: AccessFault, by: &Arc<Use>) {
        let at = by.range.ptr.0;
        let was = |free: &&Arc<Use>| at.checked_sub(free.range.ptr.0).is_some_and(|n| n < free.range.bytes);
        let standing = memory.range_at(at).map(|(range, _)| self.blocks.standing(range, at, at + 1));
        let freed = match standing {
            Some(Standing::After(free)) => Some(free),
            _ => self.freed.iter().rev().find(was).cloned(),
        };
        match (fault, freed) {
            (AccessFault::NotLive | AccessFault::NotMapped, Some(free)) => {
                self.report(RaceKind::UseAfterFree, Some(free), by);
            }
            (fault, _) => self.report(RaceKind::Foreign(fault), None, by),
        }
    }

    pub(super) fn use_of(
        &self,
        name: &'static str,
        stream: Option<(StreamHandle, u64)>,
        range: Touched,
    ) -> Arc<Use> {
        Arc::new(Use { name, stream, call: self.calls, range, origin: self.origin })
    }

    /// What a call does with a range, as a use of it by the host.
    pub(super) fn use_by_call(&self, name: &'static str, at: u64, bytes: u64) -> Arc<Use> {
        self.use_of(name, None, Touched { ptr: DevicePtr(at), bytes, write: true })
    }

    pub(super) fn report(&mut self, kind: RaceKind, first: Option<Arc<Use>>, second: &Arc<Use>) {
        if self.races.len() < MAX_RACES {
            self.races.push(Race { kind, first, second: Arc::clone(second) });
        }
    }

    /// Remembers what went back to the driver.
    pub(super) fn remember_freed(&mut self, by: Arc<Use>) {
        if self.freed.len() == MAX_FREED {
            self.freed.pop_front();
        }
        self.freed.push_back(by);
    }

    /// A range came to life where others were freed.
    pub(super) fn forget_freed(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let apart = |free: &Arc<Use>| {
            let start = free.range.ptr.0;
            start >= end || start.saturating_add(free.range.bytes) <= at
        };
        self.freed.retain(apart);
    }

    /// The uses of `[from, from + bytes)` that `now` does not cover; they are forgotten.
    pub(super) fn forget(&mut self, space: Space, from: u64, bytes: u64, now: &VectorClock) -> Vec<Arc<Use>> {
        let mut found = Vec::new();
        if let Some(history) = self.histories.get_mut(&space) {
            history.forget(from, from.saturating_add(bytes), now, &mut found);
        }
        found.into_iter().map(|made| made.by).collect()
    }

    /// Keeps memory within twice of what the last sweep left, at a cost that is spread over the uses.
    fn sweep_now_and_then(&mut self) {
        self.uses += 1;
        if self.uses < MIN_SWEEP / 4 {
            return;
        }
        self.uses = 0;
        let cells =
            |histories: &BTreeMap<Space, History>| histories.values().map(History::len).sum::<usize>();
        if cells(&self.histories) < self.sweep_at {
            return;
        }
        let over = self.lines.host();
        self.histories.values_mut().for_each(|history| history.sweep(over));
        self.histories.retain(|_, history| history.len() > 0);
        self.sweep_at = MIN_SWEEP.max(2 * cells(&self.histories));
    }
}
