//! [`solve`]: the whole search.

use super::conflicts::Conflicts;
use super::ejection::squeeze;
use super::first_fit::{Layout, orders};
use super::problem::{Problem, Split};

/// How long to search, and for what.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Conflicts to look at before the best so far is good enough. A first packing is made whatever this is.
    pub steps: u64,
    /// The height counts in multiples of this many bytes, at least 1: below the next one nothing is gained.
    pub granularity: u64,
    /// Decides between equals.
    pub seed: u64,
}

impl Default for Limits {
    /// Half a minute or so on one core, in pages of 2 MiB.
    fn default() -> Self {
        Self { steps: 400_000_000, granularity: 2 << 20, seed: 1 }
    }
}

/// Where a search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Conflicts looked at.
    pub steps: u64,
    /// The lowest height so far; 0 before there is any.
    pub height: u64,
    /// No height is below this.
    pub bound: u64,
}

/// A packing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The place of each request, in bytes from the bottom.
    pub offsets: Vec<u64>,
    /// The highest end.
    pub height: u64,
    /// The most that is live at once.
    pub bound: u64,
    /// Conflicts looked at.
    pub steps: u64,
}

/// How many steps lie between two calls of the callback.
const BETWEEN_CALLS: u64 = 1 << 18;

/// Packs the requests. `go_on` is called every now and then, and ends the search with `false`. Only a first
/// packing is always finished.
pub fn solve(problem: &Problem, limits: &Limits, go_on: &mut dyn FnMut(Progress) -> bool) -> Solution {
    let bound = problem.peak_live();
    let mut offsets = vec![0; problem.len()];
    // What is live throughout meets everything: it stands at the bottom, and is out of the way.
    let Split { always, rest, problem: moving } = problem.split_always();
    let mut base = 0;
    for request in always {
        offsets[request as usize] = base;
        base += problem.size(request);
    }
    let conflicts = Conflicts::new(&moving);
    let [by_size, others @ ..] = orders(&moving);
    let mut layout = Layout::new(&moving, &conflicts);
    layout.first_fit(&by_size, &mut |_| true);
    let best = layout.offsets.clone();
    let height = layout.height();
    let mut search = Search { layout, best, base, height, bound, limits, go_on, next_call: BETWEEN_CALLS };
    if search.try_orders(&others) {
        search.squeeze();
    }
    for (request, offset) in rest.iter().zip(&search.best) {
        offsets[*request as usize] = base + offset;
    }
    Solution { offsets, height: base + search.height, bound, steps: search.layout.steps }
}

struct Search<'s, 'a> {
    layout: Layout<'a>,
    best: Vec<u64>,
    /// What lies under the layout.
    base: u64,
    /// Of the best, from the layout's bottom.
    height: u64,
    /// From the base's bottom.
    bound: u64,
    limits: &'s Limits,
    go_on: &'s mut dyn FnMut(Progress) -> bool,
    next_call: u64,
}

impl Search<'_, '_> {
    fn pages(&self, height: u64) -> u64 {
        height.div_ceil(self.limits.granularity.max(1))
    }

    fn is_optimal(&self) -> bool {
        self.pages(self.base + self.height) <= self.pages(self.bound)
    }

    /// Tries the other orders. Says whether to search on.
    fn try_orders(&mut self, orders: &[Vec<u32>]) -> bool {
        for order in orders {
            if self.is_optimal() {
                return false;
            }
            if !self.run(u64::MAX, |layout, go_on| layout.first_fit(order, go_on)) {
                return false;
            }
            self.keep();
        }
        !self.is_optimal()
    }

    /// Squeezes below lower and lower ceilings: a part of the gap at once, and less of it when that is not found.
    fn squeeze(&mut self) {
        let granularity = self.limits.granularity.max(1);
        let mut seed = self.limits.seed;
        let mut part = 4;
        while !self.is_optimal() {
            let (now, least) = (self.pages(self.base + self.height), self.pages(self.bound));
            let down = ((now - least) / part).max(1);
            // At least the bound, and so above everything that lives.
            let ceiling = (now - down) * granularity - self.base;
            // A bold ceiling may be out of reach, and the next page a matter of luck.
            let share = self.limits.steps / if down > 1 { 16 } else { 4 };
            self.layout.offsets.clone_from(&self.best);
            seed = seed.wrapping_add(1);
            if self.run(share, |layout, go_on| squeeze(layout, ceiling, seed, go_on)) {
                self.settle();
            } else if self.is_over() {
                return;
            } else if down > 1 {
                part *= 2;
            }
        }
    }

    /// Lets every request sink as far as it goes, and keeps the packing.
    fn settle(&mut self) {
        self.keep();
        let order = self.layout.upwards();
        if self.run(u64::MAX, |layout, go_on| layout.first_fit(&order, go_on)) {
            self.keep();
        }
    }

    fn keep(&mut self) {
        let height = self.layout.height();
        if height < self.height {
            self.height = height;
            self.best.clone_from(&self.layout.offsets);
        }
    }

    fn is_over(&self) -> bool {
        self.layout.steps >= self.limits.steps || self.next_call == u64::MAX
    }

    /// Runs a part of the search for at most `share` steps, and says whether it came to its end.
    fn run(
        &mut self,
        share: u64,
        part: impl FnOnce(&mut Layout<'_>, &mut dyn FnMut(u64) -> bool) -> bool,
    ) -> bool {
        let until = self.layout.steps.saturating_add(share).min(self.limits.steps);
        let (height, bound) = (self.base + self.height, self.bound);
        let Self { layout, go_on, next_call, .. } = self;
        part(layout, &mut |steps| {
            if steps >= *next_call {
                *next_call = steps + BETWEEN_CALLS;
                if !go_on(Progress { steps, height, bound }) {
                    // Never again.
                    *next_call = u64::MAX;
                    return false;
                }
            }
            steps < until
        })
    }
}
