//! [`Draft`]: requests with lifetimes, on the way to a plan.

use std::ops::Range;

use super::plan::{Entry, Lane, Parts, Plan};
use super::recording::lane_of;
use super::shape::{Lived, Shaped};
use super::solve::{Limits, Problem, Progress, solve};
use crate::error::{Error, ErrorKind, Result};

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) shaped: Shaped,
    /// The requests, with no places yet.
    entries: Vec<Entry>,
    /// How many streams there are.
    lanes: u32,
}

impl Draft {
    pub(super) fn new(shaped: Shaped) -> Self {
        let mut streams = Vec::new();
        let entry = |lived: &Lived| Entry {
            lane: lane_of(&mut streams, lived.recorded.stream),
            size: lived.recorded.size,
            offset: 0,
            start: lived.start,
            end: lived.end,
        };
        let entries = shaped.requests.iter().map(entry).collect();
        Self { shaped, entries, lanes: streams.len() as u32 }
    }

    /// What no plan of it is lower than.
    pub(super) fn bound(&self) -> Result<u64> {
        (0..self.lanes).map(|lane| Ok(self.problem(lane)?.0.peak_live())).sum()
    }

    /// The plan, lane by lane from the bottom up.
    pub(super) fn packed(
        mut self,
        source: u64,
        limits: &Limits,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Plan> {
        let mut lanes = Vec::new();
        let mut bottom = 0;
        for lane in 0..self.lanes {
            let (problem, names) = self.problem(lane)?;
            let solution = solve(&problem, limits, go_on);
            for (at, entry) in self.entries.iter_mut().enumerate().filter(|(_, entry)| entry.lane == lane) {
                let name = names[self.shaped.places[at] as usize];
                entry.offset = bottom + solution.offsets[name as usize];
            }
            bottom += solution.height;
            lanes.push(Lane { height: solution.height, bound: solution.bound });
        }
        let Shaped { span, repeats_from, .. } = self.shaped;
        Plan::new(Parts { source, span, repeats_from, lanes, entries: self.entries })
    }

    /// What is to be packed for a lane: its places, each with all the times at which it is held, and the numbers of
    /// these places in the problem.
    fn problem(&self, lane: u32) -> Result<(Problem, Vec<u32>)> {
        let mut names = vec![u32::MAX; self.entries.len()];
        let mut places: Vec<(u64, Vec<Range<u32>>)> = Vec::new();
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.lane == lane) {
            let name = &mut names[self.shaped.places[at] as usize];
            if *name == u32::MAX {
                *name = places.len() as u32;
                places.push((entry.size, Vec::new()));
            }
            let lifetimes = entry.lifetimes(self.shaped.span, self.shaped.lap_start);
            places[*name as usize].1.extend(lifetimes.into_iter().filter(|life| !life.is_empty()));
        }
        for (_, lifetimes) in &mut places {
            join(lifetimes);
        }
        let requests = places.iter().map(|(size, lifetimes)| (*size, lifetimes.as_slice()));
        let problem = Problem::of(requests)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, format!("plan: {error}")))?;
        Ok((problem, names))
    }
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
