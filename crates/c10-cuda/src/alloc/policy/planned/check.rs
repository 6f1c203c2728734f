//! Whether the parts of a plan are one: they may come from a file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use super::plan::{Entry, Parts};
use crate::alloc::size::REQUEST_CAP;

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A number is out of its range.
    Number(&'static str),
    /// The number of an entry is.
    Entry(usize, &'static str),
    /// Two entries are live at one time in one place.
    Overlap(usize, usize),
}

/// The most events, so that the end of a next lap is a number too.
const LONGEST_SPAN: u32 = 1 << 30;

pub(super) fn check(parts: &Parts) -> Result<(), Flaw> {
    check_numbers(parts)?;
    let lap = parts.span - parts.lap_start();
    let mut bottoms = vec![0];
    for lane in &parts.lanes {
        bottoms.push(bottoms[bottoms.len() - 1] + lane.height);
    }
    let mut last = None;
    for (at, entry) in parts.entries.iter().enumerate() {
        let flaw = |what| Err(Flaw::Entry(at, what));
        let lane = entry.lane as usize;
        if lane >= parts.lanes.len() {
            return flaw("is of a lane that is not there");
        }
        let inside = entry.offset.checked_add(entry.size);
        if entry.size == 0 || entry.offset < bottoms[lane] || inside.is_none_or(|end| end > bottoms[lane + 1])
        {
            return flaw("does not lie in its lane");
        }
        if last.replace(entry.start).is_some_and(|last| last >= entry.start) {
            return flaw("does not start after the one before it");
        }
        let is_of_lap = parts.repeats_from.is_some_and(|from| at >= from as usize);
        let latest = match parts.repeats_from {
            None => parts.span,
            Some(_) if is_of_lap => entry.start + lap,
            Some(_) => parts.span + lap,
        };
        if entry.start >= parts.span || entry.end <= entry.start || entry.end > latest {
            return flaw("has no lifetime, or one that is longer than the recording or a lap");
        }
    }
    check_overlaps(parts, lap)
}

fn check_numbers(parts: &Parts) -> Result<(), Flaw> {
    let sum = parts.lanes.iter().try_fold(0_u64, |sum, lane| sum.checked_add(lane.height));
    if sum.is_none_or(|sum| sum > REQUEST_CAP) {
        return Err(Flaw::Number("the lanes are higher than 2^60 bytes together"));
    }
    if parts.lanes.iter().any(|lane| lane.bound > lane.height) {
        return Err(Flaw::Number("a lane is lower than its bound"));
    }
    if parts.span > LONGEST_SPAN || parts.entries.len() > parts.span as usize {
        return Err(Flaw::Number("the span is less than there are requests, or more than 2^30"));
    }
    if parts.repeats_from.is_some_and(|from| from as usize >= parts.entries.len()) {
        return Err(Flaw::Number("it repeats from a request that is not there"));
    }
    Ok(())
}

/// Goes through the recording, and once more through its lap: then every two that can meet have met.
fn check_overlaps(parts: &Parts, lap: u32) -> Result<(), Flaw> {
    let entries = || parts.entries.iter().enumerate();
    let from = parts.repeats_from.map_or(parts.entries.len(), |from| from as usize);
    let again = entries()
        .skip(from)
        .map(|(at, entry)| (at, Entry { start: entry.start + lap, end: entry.end + lap, ..*entry }));
    let mut live: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut ends = BinaryHeap::new();
    for (at, entry) in entries().map(|(at, entry)| (at, *entry)).chain(again) {
        while let Some(&Reverse((end, offset))) = ends.peek() {
            if end > entry.start {
                break;
            }
            live.remove(&offset);
            ends.pop();
        }
        let top = entry.offset + entry.size;
        let below = live.range(..top).next_back();
        if let Some((_, &(_, other))) = below.filter(|(_, (end, _))| *end > entry.offset) {
            return Err(Flaw::Overlap(other, at));
        }
        live.insert(entry.offset, (top, at));
        ends.push(Reverse((entry.end, entry.offset)));
    }
    Ok(())
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(what) => f.write_str(what),
            Self::Entry(at, what) => write!(f, "request {at} {what}"),
            Self::Overlap(one, other) => {
                write!(f, "requests {one} and {other} are live at one time in one place")
            }
        }
    }
}
