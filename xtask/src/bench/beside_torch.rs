//! PyTorch's allocator and ours, timed in turn on the same steps.
//!
//! Each round runs `torch_bench` and then ours, each of which times only while its yardstick runs at full speed. A
//! case's ratio is the median of its rounds' ratios.

use std::process::{Command, ExitCode};

use crate::fuzz_oracle::oracle::{self, Found};
use crate::workspace::{cargo, target_dir};
use crate::{Result, step};

/// A case, and the median nanoseconds of a pair in it.
type Figure = (String, f64);
/// A round's figures of a case: PyTorch's and ours.
type Pair = (f64, f64);

/// A side's program gives this up after five times as many.
const REPETITIONS: &str = "7";

/// Runs both sides and prints a table of ratios.
///
/// # Errors
/// A program could not be built or failed.
pub(crate) fn compare(rounds: usize) -> Result {
    let torch = match oracle::find("torch_bench")? {
        Found::At(program) => program,
        Found::Missing(why) => {
            println!("skipped: {why}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let build = ["build", "--profile", "bench", "--package", "tensorplay-benches", "--bin", "torch_cases"];
    step::must_succeed(cargo().args(build))?;
    let ours = target_dir()?.join("release").join(format!("torch_cases{}", std::env::consts::EXE_SUFFIX));
    let mut cases = Vec::new();
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        let theirs = figures(&mut Command::new(&torch))?;
        pair_up(&mut cases, &theirs, figures(&mut Command::new(&ours))?);
    }
    println!(
        "\n{:56} {:>9} {:>9} {:>7}",
        "ns for an allocation and its free, medians", "PyTorch", "ours", "ratio"
    );
    for (case, pairs) in &cases {
        let of = |value: fn(&Pair) -> f64| median(pairs.iter().map(value).collect());
        let (torch, ours, ratio) = (of(|p| p.0), of(|p| p.1), of(|p| p.1 / p.0));
        println!("{case:56} {torch:9.1} {ours:9.1} {ratio:7.3}");
    }
    for (case, ratio) in by_threads(&cases) {
        println!("{case:56} {ratio:27.2} times ours of one thread");
    }
    Ok(ExitCode::SUCCESS)
}

/// Our cases of several threads, each with its time divided by that of the same on one thread: the median of the
/// rounds' ratios.
fn by_threads(cases: &[(String, Vec<Pair>)]) -> Vec<(&str, f64)> {
    let mut ratios = Vec::new();
    for (case, pairs) in cases {
        let Some((threads, rest)) = case.split_once(" threads, ") else { continue };
        let alone = format!("1 threads, {rest}");
        let Some((_, alone)) = cases.iter().find(|(name, _)| *name == alone).filter(|_| threads != "1")
        else {
            continue;
        };
        let of_rounds = pairs.iter().zip(alone).map(|(pair, alone)| pair.1 / alone.1);
        ratios.push((case.as_str(), median(of_rounds.collect())));
    }
    ratios
}

/// What a program printed.
fn figures(program: &mut Command) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let status =
        step::run_reading(program.env("BENCH_REPS", REPETITIONS), |line| figures.extend(figure(line)))?;
    if !status.success() {
        return Err(format!("`{}` failed: {status}", step::text_of(program)).into());
    }
    Ok(figures)
}

/// The figure of a line such as `hot one size, 512 B   median   470.1  min …`.
fn figure(line: &str) -> Option<Figure> {
    let (case, rest) = line.split_once(" median ")?;
    Some((case.trim().to_owned(), rest.split_whitespace().next()?.parse().ok()?))
}

/// Adds a round's figures to the cases that both sides have.
fn pair_up(cases: &mut Vec<(String, Vec<Pair>)>, theirs: &[Figure], ours: Vec<Figure>) {
    for (case, ns) in ours {
        let Some((_, torch_ns)) = theirs.iter().find(|(name, _)| *name == case) else { continue };
        let pair = (*torch_ns, ns);
        match cases.iter_mut().find(|(name, _)| *name == case) {
            Some((_, pairs)) => pairs.push(pair),
            None => cases.push((case, vec![pair])),
        }
    }
}

/// The middle value; of an even number the mean of the two middle ones.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests;
