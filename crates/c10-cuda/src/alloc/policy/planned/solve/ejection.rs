//! Ejection: moving requests until all of them end below a ceiling.
//!
//! Those that end above it are taken out. One at a time they go back: into the tightest gap that holds them; or else
//! to where the least stands in their way, and that is taken out instead. What has often found no gap is
//! expensive to take out again, so that the search does not go round in circles (guided ejection search, after
//! Nagata and Bräysy).

use super::first_fit::{Layout, Mark, NOWHERE};
use crate::rng::Rng;

/// A search for one ceiling.
struct Search<'l, 'a> {
    layout: &'l mut Layout<'a>,
    ceiling: u64,
    /// What it costs to take a request out: how often it found no gap, times the root of its size.
    costs: Vec<u64>,
    rng: Rng,
    out: Vec<u32>,
    /// Where obstacles end, from the bottom up.
    ends: Vec<Mark>,
}

/// Moves requests of a whole layout until all end at or below `ceiling`, which holds each alone. `false` when `go_on`, which
/// is told the steps, says to stop; the layout is in pieces then.
pub(super) fn squeeze(
    layout: &mut Layout<'_>,
    ceiling: u64,
    seed: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> bool {
    let count = layout.offsets.len() as u32;
    let mut out: Vec<_> = (0..count).filter(|request| layout.end(*request) > ceiling).collect();
    for &request in &out {
        layout.offsets[request as usize] = NOWHERE;
    }
    // The last goes back first, and that should be the largest.
    out.sort_by_key(|request| layout.problem.size(*request));
    let costs = (0..count).map(|request| weight(layout.problem.size(request))).collect();
    let mut search = Search { layout, ceiling, costs, rng: Rng::new(seed), out, ends: Vec::new() };
    while let Some(request) = search.out.pop() {
        search.put_back(request);
        if !go_on(search.layout.steps) {
            return false;
        }
    }
    true
}

fn weight(size: u64) -> u64 {
    (size / 512).isqrt() + 1
}

impl Search<'_, '_> {
    fn put_back(&mut self, request: u32) {
        self.layout.look(request);
        let size = self.layout.problem.size(request);
        if let Some(at) = self.tightest_gap(size) {
            self.layout.offsets[request as usize] = at;
            return;
        }
        let cost = &mut self.costs[request as usize];
        *cost = cost.saturating_add(weight(size));
        let at = self.cheapest_place(size);
        let first = self.out.len();
        for obstacle in &self.layout.obstacles {
            let other = obstacle.request();
            if obstacle.address() < at + size && self.layout.end(other) > at {
                self.out.push(other);
            }
        }
        for &other in &self.out[first..] {
            self.layout.offsets[other as usize] = NOWHERE;
        }
        let problem = self.layout.problem;
        self.out[first..].sort_by_key(|other| problem.size(*other));
        self.layout.offsets[request as usize] = at;
    }

    /// The bottom of the smallest gap below the ceiling that holds `size`.
    fn tightest_gap(&self, size: u64) -> Option<u64> {
        let mut best = None;
        let mut smallest = u64::MAX;
        let mut bottom = 0;
        for obstacle in &self.layout.obstacles {
            let start = obstacle.address();
            if start >= bottom + size && start - bottom < smallest {
                smallest = start - bottom;
                best = Some(bottom);
            }
            bottom = bottom.max(self.layout.end(obstacle.request()));
        }
        if self.ceiling >= bottom + size && self.ceiling - bottom < smallest { Some(bottom) } else { best }
    }

    /// Where the obstacles in the way are cheapest to take out. Tried are the places that touch an obstacle, and
    /// both ends.
    fn cheapest_place(&mut self, size: u64) -> u64 {
        let obstacles = &self.layout.obstacles;
        let highest = self.ceiling - size;
        self.ends.clear();
        self.ends.extend(obstacles.iter().map(|o| Mark::new(self.layout.end(o.request()), o.request())));
        self.ends.sort_unstable();
        let mut below =
            obstacles.iter().filter_map(|o| o.address().checked_sub(size)).chain([highest]).peekable();
        let mut above = [0].into_iter().chain(self.ends.iter().map(|end| end.address())).peekable();
        let (mut begun, mut ended) = (0, 0);
        let mut sum = 0_u64;
        let mut best = (u64::MAX, 0);
        let mut equals = 0;
        let mut last = None;
        loop {
            // The next place up.
            let at = match (below.peek(), above.peek()) {
                (Some(low), Some(high)) if low <= high => below.next(),
                (_, Some(_)) => above.next(),
                (_, None) => below.next(),
            };
            let Some(at) = at.filter(|at| *at <= highest) else { break };
            if last.replace(at) == Some(at) {
                continue;
            }
            while let Some(obstacle) = obstacles.get(begun).filter(|o| o.address() < at + size) {
                sum += self.costs[obstacle.request() as usize];
                begun += 1;
            }
            while let Some(end) = self.ends.get(ended).filter(|end| end.address() <= at) {
                sum -= self.costs[end.request() as usize];
                ended += 1;
            }
            if sum < best.0 {
                best = (sum, at);
                equals = 1;
            } else if sum == best.0 {
                equals += 1;
                if self.rng.takes(equals) {
                    best.1 = at;
                }
            }
        }
        best.1
    }
}
