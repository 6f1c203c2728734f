//! Forward and backward beside PyTorch's, and candle's (feature `peers`): chains of small operators, per node, and
//! steps of training of two networks. Then the memory that three steps take at most, each side in a process of its
//! own.
//!
//! `BENCH_THREADS`: how many threads each side has. `--quick` makes two rounds. A filter picks cases by name, as
//! `training/mlp`.

#![expect(clippy::print_stdout, reason = "a program: it prints the table")]

use std::cell::RefCell;

use tensorplay_benches::arguments::Arguments;
use tensorplay_benches::peak;
use tensorplay_benches::sides::{ROUNDS, Row, Sides};
use tensorplay_benches::torch::LargeOps;

#[path = "training/ours.rs"]
mod ours;
#[cfg(feature = "peers")]
#[path = "training/candle.rs"]
mod candle;

/// A name, and how many nodes a call has: times are for one.
const CASES: [(&str, f64); 5] = [
    ("chain 1e3, forward", 1e3),
    ("chain 1e3, forward and backward", 1e3),
    ("chain 1e5, forward and backward", 1e5),
    ("mlp step, 64x784-256-256-10", 1.0),
    ("convnet step, 32x1x28x28", 1.0),
];
const SCRIPT: &str = "torch_training.py";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::env::var("BENCH_THREADS").ok().and_then(|threads| threads.parse().ok());
    let threads = threads.unwrap_or_else(aten::parallel::num_threads);
    aten::parallel::set_num_threads(threads);
    // A process that measures its own memory.
    if let [flag, side, case] = &words[..]
        && flag == "--peak"
    {
        match call(side, case) {
            Some(mut call) => println!("{}", peak::of(|| (0..3).for_each(|_| call()))),
            None => println!("unknown"),
        }
        return;
    }
    let arguments = Arguments::new(&words);
    let asked: Vec<_> =
        CASES.iter().filter(|(case, _)| arguments.selects(&format!("training/{case}"))).collect();
    if asked.is_empty() {
        return;
    }
    println!("training: {threads} threads a side");
    let rounds = if arguments.quick { 2 } else { ROUNDS };
    for (i, (case, nodes)) in asked.iter().enumerate() {
        let row = time(case, *nodes, rounds, threads);
        if i == 0 {
            println!("\n{}", row.heading());
        }
        println!("{row}");
    }
    println!("\n{:36} {:>12} {:>12} {:>12}", "peak memory of three steps, KiB", "ours", "torch", "candle");
    for (case, _) in asked.iter().filter(|(case, _)| !case.ends_with("forward")) {
        let here = |side: &str| peak::of_child(side, case);
        let torch =
            LargeOps::start(SCRIPT, threads).ok().and_then(|mut torch| torch.time(&format!("peak {case}")));
        let text = |kib: Option<f64>| kib.map_or_else(|| "-".to_owned(), |kib| format!("{kib:.0}"));
        println!("{case:36} {:>12} {:>12} {:>12}", text(here("ours")), text(torch), text(here("candle")));
    }
}

/// One call of a side of this program.
fn call(side: &str, case: &str) -> Option<Box<dyn FnMut()>> {
    match side {
        "ours" => Some(ours::call(case)),
        #[cfg(feature = "peers")]
        "candle" => Some(candle::call(case)),
        _ => None,
    }
}

fn time(case: &str, nodes: f64, rounds: usize, threads: usize) -> Row {
    let torch = match LargeOps::start(SCRIPT, threads) {
        Ok(torch) => Some(RefCell::new(torch)),
        Err(why) => {
            println!("skipped: PyTorch: {why}");
            None
        }
    };
    let mut sides = Sides::per(case, nodes);
    sides.side("ours", ours::call(case));
    sides.given("torch", || torch.as_ref()?.borrow_mut().time(case));
    #[cfg(feature = "peers")]
    sides.side("candle", candle::call(case));
    sides.compare(rounds)
}
