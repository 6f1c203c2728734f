//! [`Plan`]: where each request of a recording goes.

use std::ops::Range;

use super::check;
use super::draft::Draft;
use super::guide::Guide;
use super::recording::Recording;
use super::shape::Shape;
use super::solve::{Limits, Progress};
use crate::error::{Error, ErrorKind, Result};

/// The part of the bound that laps may cost.
const WORTH_A_LAP: u64 = 100;

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
        let mut draft = Draft::new(shape.of(recording));
        if shape == Shape::Repeating && draft.shaped.repeats_from.is_some() {
            // What is kept for a lap may take turns with what replaces it, which has no fixed places: then laps would
            // need more than there is live.
            let whole = Draft::new(Shape::Whole.of(recording));
            let (needs, least) = (draft.bound()?, whole.bound()?);
            if needs > least + least / WORTH_A_LAP {
                draft = whole;
            }
        }
        draft.packed(recording.fingerprint(), limits, go_on)
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
    pub(super) fn lifetimes(&self, span: u32, lap_start: u32) -> [Range<u32>; 2] {
        let over = self.end.saturating_sub(span);
        [lap_start..lap_start + over, self.start..self.end.min(span)]
    }
}
