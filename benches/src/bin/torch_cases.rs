//! The cases of `torch_bench`, for our allocator, printed in its form: the other half of a comparison.
//!
//! `BENCH_REPS`: how many quiet repetitions of each case are wanted (11; it gives up after five times that).
//! `BENCH_YARDSTICK_NS`: the yardstick's best time on this machine, from a quiet run.
//! An argument chooses the cases whose names contain it.

#![expect(clippy::print_stdout, reason = "a program: it prints the figures")]

use std::hint::black_box;
use std::time::Instant;

use tensorplay_benches::programs::{
    self, Calls, HOT_BYTES, MIX_STEPS, MIXES, Machine, Mix, RECORDED_BYTES, THREADS,
};
use tensorplay_benches::yardstick::Yardstick;

const PAIRS: u32 = 50_000;
/// Repetitions before the first that counts: until the pools are steady.
const WARM_UP: usize = 4;

fn main() {
    let mut report = Report::new();
    let machine = Machine::new();
    for bytes in HOT_BYTES {
        let pair = || machine.pair(black_box(bytes), Calls::Raw);
        report.case(&format!("hot one size, {bytes} B"), || per_call(pair));
    }
    for (sizes, low, high) in MIXES {
        let machine = Machine::new();
        let mut mix = Mix::new(&machine, Calls::Raw, low, high, 1);
        report.case(&format!("mix of 1000 live, {sizes}"), || {
            let begun = Instant::now();
            (0..MIX_STEPS).for_each(|_| mix.step());
            begun.elapsed().as_nanos() as f64 / MIX_STEPS as f64
        });
    }
    for (sizes, low, high) in MIXES {
        for threads in THREADS {
            on_threads(&mut report, threads, sizes, low, high);
        }
    }
    record_stream(&mut report, &machine);
}

fn on_threads(report: &mut Report, threads: usize, sizes: &str, low: u64, high: u64) {
    let machine = Machine::new();
    let mix = |seed| Mix::new(&machine, Calls::Raw, low, high, seed);
    let mut mixes: Vec<_> = (1..=threads as u32).map(mix).collect();
    let streams: Vec<_> = mixes.iter().map(|_| machine.stream().0).collect();
    report.case(&format!("{threads} threads, own streams, {sizes} (per thread)"), || {
        let took = programs::on_threads(&machine, &mut mixes, &streams, MIX_STEPS as u64);
        took.as_nanos() as f64 / MIX_STEPS as f64
    });
}

fn record_stream(report: &mut Report, machine: &Machine) {
    let (stream, handle) = machine.stream();
    report.case("DataPtr alloc + free, no record (baseline)", || {
        per_call(|| machine.pair(black_box(RECORDED_BYTES), Calls::Owned))
    });
    report.case("alloc, record_stream, free, complete", || {
        per_call(|| {
            machine.recorded_pair(stream);
            machine.complete(handle);
        })
    });
    report.case("alloc, record_stream, free; complete each 100", || {
        let mut pairs = 0_u32;
        per_call(|| {
            machine.recorded_pair(stream);
            pairs += 1;
            if pairs.is_multiple_of(100) {
                machine.complete(handle);
            }
        })
    });
}

/// Nanoseconds a call.
fn per_call(mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..PAIRS).for_each(|_| call());
    begun.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

/// Times cases and prints a line for each.
struct Report {
    yardstick: Yardstick,
    wanted: usize,
    only: Option<String>,
}

impl Report {
    fn new() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<f64>().ok();
        let yardstick = Yardstick::new(number("BENCH_YARDSTICK_NS"));
        println!("yardstick {:.0} ns", yardstick.best_ns());
        let wanted = number("BENCH_REPS").map_or(11, |reps| reps.max(1.0) as usize);
        Self { yardstick, wanted, only: std::env::args().nth(1) }
    }

    /// `body` runs one repetition and gives the nanoseconds of each of its pairs.
    fn case(&mut self, name: &str, mut body: impl FnMut() -> f64) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        (0..WARM_UP).for_each(|_| _ = body());
        let (mut quiet, mut all) = (Vec::new(), Vec::new());
        while quiet.len() < self.wanted && all.len() < 5 * self.wanted {
            let (ns, is_quiet) = self.yardstick.guard(&mut body);
            all.push(ns);
            if is_quiet {
                quiet.push(ns);
            }
        }
        let (clean, runs) = (quiet.len(), all.len());
        let mut ns = if quiet.is_empty() { all } else { quiet };
        ns.sort_by(f64::total_cmp);
        let (median, min, max) = (ns[ns.len() / 2], ns[0], ns[ns.len() - 1]);
        println!("{name:50} median {median:8.1}  min {min:8.1}  max {max:8.1} ns  ({clean} clean of {runs})");
    }
}
