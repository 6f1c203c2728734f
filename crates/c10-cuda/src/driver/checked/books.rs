//! [`Books`]: what has been given out and not taken back, as the rules see it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::driver::{
    DevicePtr, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, ModuleHandle, PhysHandle,
    StreamHandle, VaRange,
};

/// A mapping: its length, what is behind it, and whether any device was let in.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) bytes: u64,
    pub(super) memory: PhysHandle,
    pub(super) accessible: bool,
}

/// Physical memory: how often it is mapped, and how many handles there are that have not been released.
#[derive(Debug, Default)]
pub(super) struct Physical {
    pub(super) maps: u32,
    pub(super) handles: u32,
}

/// Where an event was last recorded: its stream, and the how manyth record there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stream: StreamHandle,
    pub(super) record: u64,
}

/// Records on a stream: how many there were, and how many of them are known to be complete.
#[derive(Debug, Default)]
pub(super) struct Records {
    issued: u64,
    complete: u64,
}

/// Everything that lives.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Lengths by first address.
    pub(super) allocations: BTreeMap<u64, u64>,
    /// First addresses of what was opened of other processes; how long it is they know.
    pub(super) opened: BTreeSet<u64>,
    /// What `malloc_async` gave and `free_async` has not taken.
    pub(super) pooled: BTreeMap<u64, u64>,
    /// The same of what it gave while a stream captured, freed or not: graphs may make it live again.
    pub(super) of_graphs: BTreeMap<u64, u64>,
    pub(super) reservations: BTreeMap<u64, u64>,
    pub(super) mappings: BTreeMap<u64, Mapped>,
    pub(super) physical: HashMap<PhysHandle, Physical>,
    pub(super) streams: HashSet<StreamHandle>,
    /// Streams that somebody else made: how often they were adopted and not disowned.
    pub(super) lent: HashMap<StreamHandle, u32>,
    pub(super) events: HashMap<EventHandle, Option<Place>>,
    records: HashMap<StreamHandle, Records>,
    /// The streams on which captures that are under way began.
    pub(super) origins: HashSet<StreamHandle>,
    pub(super) graphs: HashSet<GraphHandle>,
    pub(super) execs: HashSet<GraphExecHandle>,
    /// Modules, and the functions that each has given.
    pub(super) modules: HashMap<ModuleHandle, Vec<FunctionHandle>>,
    pub(super) pinned: BTreeMap<usize, u64>,
    pub(super) registered: BTreeMap<usize, u64>,
}

/// Whether `[at, at + bytes)` touches a range of the map.
fn touches(ranges: &BTreeMap<u64, u64>, at: u64, bytes: u64) -> bool {
    ranges.range(..at.saturating_add(bytes)).next_back().is_some_and(|(&base, &len)| base + len > at)
}

impl Books {
    /// Whether a new range touches one that lives.
    pub(super) fn overlaps(&self, at: DevicePtr, bytes: u64) -> bool {
        let maps = [&self.allocations, &self.pooled, &self.reservations];
        maps.into_iter().any(|ranges| touches(ranges, at.0, bytes))
    }

    pub(super) fn overlaps_pinned(&self, at: usize, bytes: u64) -> bool {
        let end = (at as u64).saturating_add(bytes) as usize;
        let touches = |ranges: &BTreeMap<usize, u64>| {
            ranges.range(..end).next_back().is_some_and(|(&base, &len)| base as u64 + len > at as u64)
        };
        touches(&self.pinned) || touches(&self.registered)
    }

    pub(super) fn taken_back(&mut self, stream: StreamHandle) {
        if let Some(times) = self.lent.get_mut(&stream) {
            *times -= 1;
            if *times == 0 {
                self.lent.remove(&stream);
            }
        }
    }

    pub(super) fn is_stream(&self, stream: StreamHandle) -> bool {
        stream.raw == 0
            || stream.raw == StreamHandle::per_thread_default(0).raw
            || self.streams.contains(&stream)
            || self.lent.contains_key(&stream)
    }

    pub(super) fn is_range(&self, range: VaRange) -> bool {
        self.reservations.get(&range.base.0) == Some(&range.bytes)
    }

    pub(super) fn is_mapped_anywhere(&self, at: DevicePtr, bytes: u64) -> bool {
        let before = self.mappings.range(..at.0.saturating_add(bytes)).next_back();
        before.is_some_and(|(&base, m)| base + m.bytes > at.0)
    }

    /// Whether one reservation holds the whole range.
    pub(super) fn is_reserved(&self, at: DevicePtr, bytes: u64) -> bool {
        let reserved = self.reservations.range(..=at.0).next_back();
        reserved.is_some_and(|(&base, &len)| {
            at.0.checked_add(bytes).is_some_and(|end| end <= base.saturating_add(len))
        })
    }

    /// The mappings that make up the range exactly.
    pub(super) fn covering(&self, at: DevicePtr, bytes: u64) -> Option<Vec<u64>> {
        let end = at.0.checked_add(bytes).filter(|_| bytes != 0)?;
        let mut reached = at.0;
        let mut found = Vec::new();
        for (&base, mapping) in self.mappings.range(at.0..end) {
            if base != reached {
                return None;
            }
            found.push(base);
            reached += mapping.bytes;
        }
        (reached == end).then_some(found)
    }

    /// Whether all of the range is memory that work can use.
    pub(super) fn is_usable(&self, at: DevicePtr, bytes: u64) -> bool {
        let Some(end) = at.0.checked_add(bytes) else { return false };
        for ranges in [&self.allocations, &self.pooled, &self.of_graphs] {
            if let Some((&base, &len)) = ranges.range(..=at.0).next_back()
                && at.0 - base < len
            {
                return end - base <= len;
            }
        }
        // How far memory of other processes reaches they know.
        let opened = self.opened.range(..=at.0).next_back();
        if opened.is_some_and(|&base| self.allocations.range(base..=at.0).next_back().is_none()) {
            return true;
        }
        let mut reached = at.0;
        while reached < end {
            match self.mappings.range(..=reached).next_back() {
                Some((&base, m)) if reached - base < m.bytes && m.accessible => reached = base + m.bytes,
                _ => return false,
            }
        }
        true
    }

    pub(super) fn unmapped(&mut self, base: u64) {
        let Some(mapping) = self.mappings.remove(&base) else { return };
        if let Some(physical) = self.physical.get_mut(&mapping.memory) {
            physical.maps -= 1;
            if physical.handles == 0 && physical.maps == 0 {
                self.physical.remove(&mapping.memory);
            }
        }
    }

    pub(super) fn released(&mut self, memory: PhysHandle) {
        if let Some(physical) = self.physical.get_mut(&memory) {
            physical.handles -= 1;
            if physical.handles == 0 && physical.maps == 0 {
                self.physical.remove(&memory);
            }
        }
    }

    pub(super) fn recorded(&mut self, event: EventHandle, stream: StreamHandle) {
        // Each thread means another stream by that handle.
        if stream.raw == StreamHandle::per_thread_default(0).raw {
            self.events.insert(event, None);
            return;
        }
        let records = self.records.entry(stream).or_default();
        records.issued += 1;
        let place = Place { stream, record: records.issued };
        self.events.insert(event, Some(place));
    }

    /// Whether the record, and so all before it on its stream, is known to be complete.
    pub(super) fn is_complete(&self, place: Place) -> bool {
        self.records.get(&place.stream).is_none_or(|records| records.complete >= place.record)
    }

    pub(super) fn completed(&mut self, place: Place) {
        if let Some(records) = self.records.get_mut(&place.stream) {
            records.complete = records.complete.max(place.record);
        }
    }

    /// The last record on a stream.
    pub(super) fn last_record(&self, stream: StreamHandle) -> Option<Place> {
        self.records.get(&stream).map(|records| Place { stream, record: records.issued })
    }

    /// Forgets a stream, and what its events stand for: a later stream may have its handle.
    pub(super) fn stream_ended(&mut self, stream: StreamHandle) {
        self.streams.remove(&stream);
        self.records.remove(&stream);
        self.events.values_mut().filter(|p| p.is_some_and(|p| p.stream == stream)).for_each(|p| *p = None);
    }
}
