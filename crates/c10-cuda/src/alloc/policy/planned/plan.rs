//! [`Plan`]: where each request of a recording goes.

use std::ops::Range;

use super::check;
use super::guide::Guide;
use super::recording::{Recording, lane_of};
use super::shape::{Shape, Shaped};
use super::solve::{Limits, Problem, Progress, solve};
use crate::error::{Error, ErrorKind, Result};

/// The places of the requests of a recording in one range of addresses, its *arena*.
///
/// A plan upholds these rules, wherever it comes from: requests that are live at one time do not overlap, in the
/// recording and from lap to lap; each stream has a part of the arena, its *lane*, for itself.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) parts: Parts,
    /// What serving needs to know, worked out from the parts.
    pub(super) guide: Guide,
}

/// What a plan says, and what its file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// The fingerprint of the recording.
    pub(super) source: u64,
    /// How many events it has.
    pub(super) span: u32,
    /// The request that follows the last one; without it the plan begins again only when told to.
    pub(super) repeats_from: Option<u32>,
    /// By the order in which their streams appear; from the bottom up, without gaps.
    pub(super) lanes: Vec<Lane>,
    /// In order.
    pub(super) entries: Vec<Entry>,
}

/// A stream's part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) height: u64,
    /// The most that is live at once in it: no plan is lower.
    pub(super) bound: u64,
}

/// A request with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) lane: u32,
    pub(super) size: u64,
    /// From the arena's bottom.
    pub(super) offset: u64,
    /// In events. An end after the recording is one in the next lap.
    pub(super) start: u32,
    pub(super) end: u32,
}

impl PartialEq for Plan {
    /// Whether they have the same places for the same requests.
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Plan {
    /// A plan for a recording of some shape. `go_on` is called every now and then, and ends the search with
    /// `false`; the best that has been found counts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the requests are more than 2^60 bytes together.
    pub fn make(
        recording: &Recording,
        shape: Shape,
        limits: &Limits,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Self> {
        let shaped = shape.of(recording);
        let mut streams = Vec::new();
        let entry = |lived: &super::shape::Lived| Entry {
            lane: lane_of(&mut streams, lived.recorded.stream),
            size: lived.recorded.size,
            offset: 0,
            start: lived.start,
            end: lived.end,
        };
        let mut entries: Vec<_> = shaped.requests.iter().map(entry).collect();
        let mut lanes = Vec::new();
        let mut bottom = 0;
        for lane in 0..streams.len() as u32 {
            let packed = pack(&mut entries, lane, bottom, &shaped, limits, go_on)?;
            bottom += packed.height;
            lanes.push(packed);
        }
        let parts = Parts {
            source: recording.fingerprint(),
            span: shaped.span,
            repeats_from: shaped.repeats_from,
            lanes,
            entries,
        };
        Self::new(parts)
    }

    /// A plan of these parts, if it keeps the rules.
    pub(super) fn new(parts: Parts) -> Result<Self> {
        check::check(&parts).map_err(|why| Error::new(ErrorKind::InvalidArgument, format!("plan: {why}")))?;
        let guide = Guide::new(&parts);
        Ok(Self { parts, guide })
    }

    /// The bytes of the arena.
    pub fn height(&self) -> u64 {
        self.parts.lanes.iter().map(|lane| lane.height).sum()
    }

    /// What no plan for the recording can be lower than: the most that is live at once, lane by lane.
    pub fn bound(&self) -> u64 {
        self.parts.lanes.iter().map(|lane| lane.bound).sum()
    }

    /// How many requests it has places for.
    pub fn len(&self) -> usize {
        self.parts.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.parts.entries.is_empty()
    }

    /// How many requests make up a lap, where it repeats.
    pub fn period(&self) -> Option<usize> {
        self.parts.repeats_from.map(|from| self.len() - from as usize)
    }

    /// How many streams it serves.
    pub fn lanes(&self) -> usize {
        self.parts.lanes.len()
    }

    /// The fingerprint of the recording that it was made from ([`Recording::fingerprint`]).
    pub fn source(&self) -> u64 {
        self.parts.source
    }
}

impl Parts {
    /// When the lap begins.
    pub(super) fn lap_start(&self) -> u32 {
        self.repeats_from.and_then(|from| self.entries.get(from as usize)).map_or(0, |entry| entry.start)
    }

    /// The part of the arena that a lane has.
    pub(super) fn range(&self, lane: u32) -> Range<u64> {
        let below = self.lanes[..lane as usize].iter().map(|lane| lane.height).sum::<u64>();
        below..below + self.lanes[lane as usize].height
    }
}

impl Entry {
    /// The times at which it is held, folded into one lap and what came before it: the part that runs over into the
    /// next lap, which may be empty, and the rest.
    fn lifetimes(&self, span: u32, lap_start: u32) -> [Range<u32>; 2] {
        let over = self.end.saturating_sub(span);
        [lap_start..lap_start + over, self.start..self.end.min(span)]
    }
}

/// Places the entries of a lane from `bottom` up.
fn pack(
    entries: &mut [Entry],
    lane: u32,
    bottom: u64,
    shaped: &Shaped,
    limits: &Limits,
    go_on: &mut dyn FnMut(Progress) -> bool,
) -> Result<Lane> {
    let mut names = vec![u32::MAX; entries.len()];
    let mut places: Vec<(u64, Vec<Range<u32>>)> = Vec::new();
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.lane == lane) {
        let name = &mut names[shaped.places[at] as usize];
        if *name == u32::MAX {
            *name = places.len() as u32;
            places.push((entry.size, Vec::new()));
        }
        let lifetimes = entry.lifetimes(shaped.span, shaped.lap_start);
        let all = &mut places[*name as usize].1;
        all.extend(lifetimes.into_iter().filter(|life| !life.is_empty()));
    }
    for (_, lifetimes) in &mut places {
        join(lifetimes);
    }
    let requests = places.iter().map(|(size, lifetimes)| (*size, lifetimes.as_slice()));
    let problem = Problem::of(requests)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, format!("plan: {error}")))?;
    let solution = solve(&problem, limits, go_on);
    for (at, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| entry.lane == lane) {
        let name = names[shaped.places[at] as usize];
        entry.offset = bottom + solution.offsets[name as usize];
    }
    Ok(Lane { height: solution.height, bound: solution.bound })
}

/// Puts ranges in order, and makes one of those that overlap or touch.
fn join(ranges: &mut Vec<Range<u32>>) {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
    for range in ranges.drain(..) {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    *ranges = joined;
}
