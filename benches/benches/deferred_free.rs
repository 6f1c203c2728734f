//! The deferred-free queue in the memory of training a recurrent network, against freeing at once.
//!
//! Criterion gives no 99th percentile and no peak, so that this bench has a table of its own. Both sides run
//! the same loop over the same inner allocator, in turn, each time in a new process: the system's allocator
//! remembers what was freed before. A side's figure is the median over its runs that the yardstick found
//! quiet, or over all if none was. What is still queued at the end of a run is flushed within the time.
//!
//! `--quick` runs each side once. A filter that is no part of `deferred_free` skips all.

#![expect(clippy::print_stdout, reason = "a program: it prints the table")]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use c10_core::allocator::{
    Allocator, CachingCpuAllocator, CountingAllocator, CpuAllocator, DeferredFreeAllocator,
    DeferredFreeConfig,
};
use tensorplay_benches::arguments::Arguments;
use tensorplay_benches::recurrent::{self, Free};
use tensorplay_benches::yardstick::Yardstick;

/// The sequences of a run, after a quarter as many to warm up.
const SEQUENCES: usize = 60;
const RUNS: usize = 11;
/// The argument by which the bench starts itself to run one side once.
const SIDE: &str = "--side";

const FREES: [(&str, Free); 2] =
    [("graph dropped at once", Free::InOneBurst), ("freed step by step backwards", Free::Backwards)];
const INNERS: [&str; 2] = ["system", "caching"];
const WAYS: [&str; 2] = ["at once", "deferred"];

/// What one run gives.
const FIGURES: [&str; 5] =
    ["sequence, us", "step p50, us", "step p99, us", "peak bytes", "peak resident KiB"];
type Figures = [f64; FIGURES.len()];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [option, free, inner, way] = &words[..]
        && option == SIDE
    {
        let figures = one_run(free, inner, way);
        println!("{}", figures.map(|figure| figure.to_string()).join(" "));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::new(&words);
    if arguments.selects("deferred_free") {
        compare(if arguments.quick { 1 } else { RUNS });
    }
    ExitCode::SUCCESS
}

/// Runs everything and prints the tables.
fn compare(runs: usize) {
    let mut yardstick = Yardstick::new(None);
    println!(
        "deferred_free: {SEQUENCES} sequences a run, {runs} runs a side, yardstick {:.0} ns",
        yardstick.best_ns()
    );
    for (free, _) in FREES {
        for inner in INNERS {
            let sides = alternate(&mut yardstick, free, inner, runs);
            print_table(&format!("{free}, over the {inner} allocator"), sides);
        }
    }
}

/// The median figures of both ways, and how many runs were quiet.
fn alternate(yardstick: &mut Yardstick, free: &str, inner: &str, runs: usize) -> [(Figures, usize); 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (way, all) in WAYS.iter().zip(&mut all) {
            all.push(yardstick.guard(|| run_apart(free, inner, way)));
        }
    }
    all.map(|all| {
        let quiet = all.iter().filter(|(_, quiet)| *quiet).count();
        let counts = |is_quiet: bool| is_quiet || quiet == 0;
        let counted: Vec<Figures> = all.iter().filter(|(_, q)| counts(*q)).map(|(f, _)| *f).collect();
        (std::array::from_fn(|i| quantile(counted.iter().map(|f| f[i]).collect(), 0.5)), quiet)
    })
}

fn print_table(heading: &str, [(at_once, quiet), (deferred, quiet_deferred)]: [(Figures, usize); 2]) {
    println!("\n{heading} ({quiet} and {quiet_deferred} quiet runs)");
    println!("{:20} {:>12} {:>12} {:>7}", "", WAYS[0], WAYS[1], "ratio");
    for ((figure, at_once), deferred) in FIGURES.iter().zip(at_once).zip(deferred) {
        println!("{figure:20} {at_once:12.1} {deferred:12.1} {:7.2}", deferred / at_once);
    }
}

fn run_apart(free: &str, inner: &str, way: &str) -> Figures {
    let this = std::env::current_exe().expect("the bench was started from a file");
    let run = Command::new(this).args([SIDE, free, inner, way]).output().expect("it starts again");
    let text = String::from_utf8_lossy(&run.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    figures.try_into().unwrap_or_else(|_| panic!("a run failed: {}", String::from_utf8_lossy(&run.stderr)))
}

/// One side, in this process.
fn one_run(free: &str, inner: &str, way: &str) -> Figures {
    let free = FREES.iter().find(|(name, _)| *name == free).expect("it is in the list").1;
    let inner: Arc<dyn Allocator> =
        if inner == "caching" { Arc::new(CachingCpuAllocator::default()) } else { Arc::new(CpuAllocator) };
    let counter = Arc::new(CountingAllocator::new(inner));
    let queue = (way == "deferred").then(|| {
        let config = DeferredFreeConfig::default();
        DeferredFreeAllocator::try_new(counter.clone(), config).expect("it is the host's memory")
    });
    let allocator: &dyn Allocator = match &queue {
        Some(queue) => queue,
        None => &*counter,
    };
    recurrent::run(allocator, SEQUENCES / 4, free);
    let begun = Instant::now();
    let steps_ns = recurrent::run(allocator, SEQUENCES, free);
    if let Some(queue) = &queue {
        queue.flush();
    }
    let sequence_us = begun.elapsed().as_secs_f64() * 1e6 / SEQUENCES as f64;
    let steps: Vec<f64> = steps_ns.iter().map(|&ns| ns as f64 / 1e3).collect();
    let peak = counter.counts().bytes.peak as f64;
    [sequence_us, quantile(steps.clone(), 0.5), quantile(steps, 0.99), peak, resident_peak_kib()]
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

/// The most memory that this process had resident, as Linux knows it; NaN elsewhere.
fn resident_peak_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
}
