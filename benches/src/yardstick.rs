//! [`Yardstick`]: a fixed piece of integer work, whose time says whether the machine is at full speed.
//!
//! Machines are shared. What is timed between two runs of the yardstick that took about as long as its best
//! ran on a quiet machine; other timings are put aside.

use std::hint::black_box;
use std::time::Instant;

/// A run within this factor of the best counts as quiet.
const QUIET: f64 = 1.15;
/// How many runs find the best.
const SEARCH: usize = 500;
const ROUNDS: u64 = 300_000;

/// The best time of the fixed work, and the runs against it.
#[derive(Debug)]
pub struct Yardstick {
    best_ns: f64,
}

impl Yardstick {
    /// Looks for the best time; `known_ns` is one of an earlier, quiet run.
    pub fn new(known_ns: Option<f64>) -> Self {
        let best_ns = (0..SEARCH).map(|_| work_ns()).fold(known_ns.unwrap_or(f64::INFINITY), f64::min);
        Self { best_ns }
    }

    /// The best time so far, in nanoseconds.
    pub fn best_ns(&self) -> f64 {
        self.best_ns
    }

    /// Runs `body` between two runs of the work, and says whether the machine was quiet.
    pub fn guard<T>(&mut self, body: impl FnOnce() -> T) -> (T, bool) {
        let before = work_ns();
        let done = body();
        let worst = before.max(work_ns());
        self.best_ns = self.best_ns.min(worst);
        (done, worst < QUIET * self.best_ns)
    }
}

/// Four chains that do not wait for each other, so that a busy sibling thread of the processor shows.
fn work_ns() -> f64 {
    let begun = Instant::now();
    let mut chains = black_box([1_u64, 2, 3, 4]);
    for _ in 0..ROUNDS {
        for (chain, step) in chains.iter_mut().zip([11, 13, 17, 19]) {
            *chain = (*chain ^ (*chain >> 7)).wrapping_add(step);
        }
        // In registers, but not in vectors: the loop stays the same whatever the compiler would make of it.
        chains = chains.map(black_box);
    }
    black_box(chains);
    begun.elapsed().as_nanos() as f64
}
