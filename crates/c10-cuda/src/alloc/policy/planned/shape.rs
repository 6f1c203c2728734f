//! [`Shape`]: what a recording is a recording of, and what that makes of lifetimes.
//!
//! Time runs through the recording, and then, where it repeats, from the start of the *lap* through it again: an end
//! after the recording is one in the next lap. Nothing is held for longer than a lap: what would be has its place
//! for itself.

use std::collections::{HashMap, VecDeque};

use super::laps::Laps;
use super::recording::{Event, Recorded, Recording};

/// What a recording is a recording of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shape {
    /// All that a program does, from its beginning. It may do it again.
    #[default]
    Whole,
    /// One iteration of many, from a mark to the next. What it leaves behind and what it frees of the one before are
    /// matched, by size and in order.
    Iteration,
    /// A program that sooner or later repeats itself, from its beginning to anywhere. Where it does is found by
    /// comparing sizes. What does not repeat itself counts as [`Whole`](Self::Whole).
    Repeating,
}

/// A request with its lifetime, in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lived {
    pub(super) recorded: Recorded,
    pub(super) start: u32,
    /// After the recording where it ends in the next lap.
    pub(super) end: u32,
}

/// The requests of a recording, with lifetimes.
#[derive(Clone, Debug)]
pub(super) struct Shaped {
    pub(super) requests: Vec<Lived>,
    /// How many events there are.
    pub(super) span: u32,
    /// The request that the lap begins with.
    pub(super) repeats_from: Option<u32>,
    /// When the lap begins.
    pub(super) lap_start: u32,
    /// Requests that have one place, by a common number: the counterparts in successive laps.
    pub(super) places: Vec<u32>,
}

impl Shape {
    pub(super) fn of(self, recording: &Recording) -> Shaped {
        let mut shaped = Shaped::whole(recording);
        match self {
            Self::Whole => {}
            _ if shaped.requests.is_empty() => {}
            Self::Iteration => {
                shaped.repeats_from = Some(0);
                shaped.match_earlier(recording);
            }
            Self::Repeating => {
                if let Some(laps) = Laps::find(&recording.requests) {
                    shaped.repeat(&laps);
                }
            }
        }
        shaped
    }
}

impl Shaped {
    fn whole(recording: &Recording) -> Self {
        let span = recording.events.len() as u32;
        let held = |recorded: &Recorded| Lived { recorded: *recorded, start: 0, end: span };
        let mut requests: Vec<_> = recording.requests.iter().map(held).collect();
        for (time, event) in recording.events.iter().enumerate() {
            match *event {
                Event::Allocate(request) => requests[request as usize].start = time as u32,
                Event::Free(request) => requests[request as usize].end = time as u32,
                Event::FreeEarlier(_) => {}
            }
        }
        let places = (0..requests.len() as u32).collect();
        Self { requests, span, repeats_from: None, lap_start: 0, places }
    }

    /// When the next lap has come as far as this one at `time`.
    fn in_next_lap(&self, time: u32) -> u32 {
        self.span + time.saturating_sub(self.lap_start)
    }

    /// What an iteration leaves is what the next one frees, if the sizes are equal.
    fn match_earlier(&mut self, recording: &Recording) {
        let mut earlier: HashMap<Recorded, VecDeque<u32>> = HashMap::new();
        for (time, event) in recording.events.iter().enumerate() {
            if let Event::FreeEarlier(recorded) = event {
                earlier.entry(*recorded).or_default().push_back(time as u32);
            }
        }
        for at in 0..self.requests.len() {
            let Lived { recorded, start, end } = self.requests[at];
            if end < self.span {
                continue;
            }
            let freed = earlier.get_mut(&recorded).and_then(VecDeque::pop_front);
            self.requests[at].end = self.in_next_lap(freed.unwrap_or(start).min(start));
        }
    }

    /// The last requests are a lap. Those before them came before it.
    fn repeat(&mut self, laps: &Laps) {
        let from = laps.from;
        self.repeats_from = Some(from as u32);
        self.lap_start = self.requests[from].start;
        for at in 0..self.requests.len() {
            let Lived { start, end, .. } = self.requests[at];
            let before = laps.before[at].map(|before| before as usize);
            if end == self.span {
                let until = match before.map(|before| self.requests[before].end) {
                    // As its counterpart in the lap before.
                    Some(freed) if at >= from && freed < self.span => freed.min(start),
                    _ if at >= from => start,
                    _ => self.span,
                };
                self.requests[at].end = self.in_next_lap(until);
            }
            // What one lap leaves for the next stands where the next leaves it: there is room for it once.
            if let Some(before) = before
                && at >= from
                && (self.lap_start + 1..=start).contains(&self.requests[before].end)
            {
                self.places[at] = self.places[before];
            }
        }
    }
}
