//! The smallest operators beside libtorch's, called from C++, and candle's and ndarray's (feature `peers`): one
//! thread, nanoseconds for a call with the end of its result.
//!
//! Each round times every side once, so that a ratio is the median of ratios of pairs; libtorch is timed by
//! `torch_ops_bench` with no guard, as candle is with nothing recorded.
//!
//! `--quick` makes two rounds. A filter that is no part of `tensor_small` skips all.

#![expect(clippy::print_stdout, reason = "a program: it prints the table")]

use std::cell::RefCell;
use std::collections::HashMap;

use aten::Tensor;
use aten::ops::handles;
use c10_core::ScalarType;
use tensorplay_benches::arguments::Arguments;
use tensorplay_benches::sides::{ROUNDS, Row, Sides};
use tensorplay_benches::torch::SmallOps;

/// A name, and that of the same case in `torch_ops_bench`.
type Case = (&'static str, &'static str);

const CASES: [Case; 9] = [
    ("add, 1 element", "at::add, 1 element"),
    ("add_, 1 element", "a.add_(b), 1 element"),
    ("empty, 1 element", "at::empty({1})"),
    ("zeros, 1 element", "at::zeros({1})"),
    ("view", "x.view({24})"),
    ("transpose", "x.transpose(0, 1)"),
    ("narrow", "x.narrow(0, 1, 2)"),
    ("select", "x.select(0, 1)"),
    ("handle clone", "Tensor handle copy"),
];
const PLAIN: &str = "plain dispatch (no guard, requires_grad off)";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = Arguments::new(&words);
    if !arguments.selects("tensor_small") {
        return;
    }
    aten::parallel::set_num_threads(1);
    let torch = SmallOps::find();
    if let Err(why) = &torch {
        println!("skipped: libtorch: {why}");
    }
    if cfg!(not(feature = "peers")) {
        println!("skipped: candle: the feature `peers` is off");
    }
    let rounds = if arguments.quick { 2 } else { ROUNDS };
    // One run of the program times all its cases, so that its rounds come first.
    let runs: Vec<_> = (0..rounds).map(|_| torch.as_ref().map(SmallOps::run).unwrap_or_default()).collect();
    let rows: Vec<Row> = CASES.iter().map(|case| compare(*case, &runs)).collect();
    println!("\n{}", rows[0].heading());
    rows.iter().for_each(|row| println!("{row}"));
}

fn compare((name, torch_name): Case, runs: &[HashMap<(String, String), f64>]) -> Row {
    let mut sides = Sides::new(name);
    ours(&mut sides, name);
    let key = (PLAIN.to_owned(), torch_name.to_owned());
    let theirs = RefCell::new(runs.iter().map(|run| run.get(&key).copied()).collect::<Vec<_>>().into_iter());
    sides.given("libtorch", move || theirs.borrow_mut().next().flatten());
    #[cfg(feature = "peers")]
    peers::candle(&mut sides, name);
    sides.compare(runs.len())
}

fn ours(sides: &mut Sides<'_>, name: &str) {
    let one = || Tensor::ones(&[1], ScalarType::Float32).expect("there is memory for one number");
    let (a, b) = (one(), one());
    let m = Tensor::ones(&[4, 6], ScalarType::Float32).expect("there is memory for 24 numbers");
    match name {
        "add, 1 element" => sides.side("ours", move || a.add(&b)),
        // Zero, so that the number stays one.
        "add_, 1 element" => sides.side("ours", move || handles::ADD__TENSOR.call(&a, &b, 0.into())),
        "empty, 1 element" => sides.side("ours", || Tensor::empty(&[1], ScalarType::Float32)),
        "zeros, 1 element" => sides.side("ours", || Tensor::zeros(&[1], ScalarType::Float32)),
        "view" => sides.side("ours", move || m.view(&[24])),
        "transpose" => sides.side("ours", move || m.transpose(0, 1)),
        "narrow" => sides.side("ours", move || m.narrow(0, 1, 2)),
        "select" => sides.side("ours", move || m.select(0, 1)),
        _ => sides.side("ours", move || m.clone()),
    }
}

#[cfg(feature = "peers")]
mod peers {
    use candle_core::{DType, Device, Tensor};
    use tensorplay_benches::sides::Sides;

    pub(super) fn candle(sides: &mut Sides<'_>, name: &str) {
        let ones = |sizes: &[usize]| Tensor::ones(sizes, DType::F32, &Device::Cpu).expect("there is memory");
        let (a, b, m) = (ones(&[1]), ones(&[1]), ones(&[4, 6]));
        match name {
            "add, 1 element" => sides.side("candle", move || a.add(&b)),
            "empty, 1 element" | "zeros, 1 element" => {
                sides.side("candle", || Tensor::zeros(&[1], DType::F32, &Device::Cpu));
            }
            "view" => sides.side("candle", move || m.reshape(24)),
            "transpose" => sides.side("candle", move || m.transpose(0, 1)),
            "narrow" => sides.side("candle", move || m.narrow(0, 1, 2)),
            "select" => sides.side("candle", move || m.get(1)),
            "handle clone" => sides.side("candle", move || m.clone()),
            _ => sides.given("candle", || None),
        }
    }
}
