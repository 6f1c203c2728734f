//! [`Layout`]: places of requests, and first fit in a given order.

use std::cmp::Reverse;

use super::conflicts::Conflicts;
use super::problem::Problem;

/// No place.
pub(super) const NOWHERE: u64 = u64::MAX;

/// A request and an address that counts for it, in one number: whole numbers sort faster than pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u128);

impl Mark {
    pub(super) fn new(address: u64, request: u32) -> Self {
        Self(u128::from(address) << 32 | u128::from(request))
    }

    pub(super) fn address(self) -> u64 {
        (self.0 >> 32) as u64
    }

    pub(super) fn request(self) -> u32 {
        self.0 as u32
    }
}

/// Where requests stand, and what it has taken to find out.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    pub(super) problem: &'a Problem,
    pub(super) conflicts: &'a Conflicts<'a>,
    pub(super) offsets: Vec<u64>,
    /// Conflicts looked at so far.
    pub(super) steps: u64,
    /// What the last look found in the way, by where it begins.
    pub(super) obstacles: Vec<Mark>,
}

impl<'a> Layout<'a> {
    /// Nothing is placed yet.
    pub(super) fn new(problem: &'a Problem, conflicts: &'a Conflicts<'a>) -> Self {
        let offsets = vec![NOWHERE; problem.len()];
        Self { problem, conflicts, offsets, steps: 0, obstacles: Vec::new() }
    }

    /// Looks for what is placed in the way of a request.
    pub(super) fn look(&mut self, request: u32) {
        let Self { conflicts, offsets, obstacles, steps, .. } = self;
        obstacles.clear();
        conflicts.visit(request, |other| {
            *steps += 1;
            let at = offsets[other as usize];
            if at != NOWHERE {
                obstacles.push(Mark::new(at, other));
            }
        });
        obstacles.sort_unstable();
        if conflicts.has_several() {
            obstacles.dedup();
        }
    }

    /// The end of a request that is placed.
    pub(super) fn end(&self, request: u32) -> u64 {
        self.offsets[request as usize] + self.problem.size(request)
    }

    /// The highest end.
    pub(super) fn height(&self) -> u64 {
        (0..self.offsets.len() as u32).map(|request| self.end(request)).max().unwrap_or(0)
    }

    /// Places every request anew, in order, at the lowest place that those before leave it. `false` when
    /// `go_on` said so before all were placed.
    pub(super) fn first_fit(&mut self, order: &[u32], go_on: &mut dyn FnMut(u64) -> bool) -> bool {
        self.offsets.fill(NOWHERE);
        for &request in order {
            self.look(request);
            let size = self.problem.size(request);
            let mut at = 0;
            for obstacle in &self.obstacles {
                if obstacle.address() >= at + size {
                    break;
                }
                at = at.max(self.end(obstacle.request()));
            }
            self.offsets[request as usize] = at;
            if !go_on(self.steps) {
                return false;
            }
        }
        true
    }

    /// The requests from the bottom up: placed in this order, none comes to stand higher.
    pub(super) fn upwards(&self) -> Vec<u32> {
        let mut order: Vec<_> = (0..self.offsets.len() as u32).collect();
        order.sort_unstable_by_key(|request| (self.offsets[*request as usize], *request));
        order
    }
}

/// Orders that tend to pack well: the largest first, the largest in bytes and time, the longest, the earliest.
pub(super) fn orders(problem: &Problem) -> [Vec<u32>; 4] {
    let durations = problem.durations();
    let duration = |request: u32| durations[request as usize];
    let size = |request: u32| problem.size(request);
    let order = |key: &dyn Fn(u32) -> (u128, u64)| {
        let mut order: Vec<_> = (0..problem.len() as u32).collect();
        order.sort_by_cached_key(|request| Reverse(key(*request)));
        order
    };
    let mut earliest: Vec<_> = problem.pieces().iter().map(|piece| piece.request).collect();
    let mut seen = vec![false; problem.len()];
    earliest.retain(|request| !std::mem::replace(&mut seen[*request as usize], true));
    [
        order(&|request| (size(request).into(), duration(request))),
        order(&|request| (u128::from(size(request)) * u128::from(duration(request)), 0)),
        order(&|request| (duration(request).into(), size(request))),
        earliest,
    ]
}
