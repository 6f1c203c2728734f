//! PyTorch's allocator and ours, timed in turn on the same steps.
//!
//! Each round runs `torch_bench` and then ours. A side's figure for a case is the least of its medians over the
//! rounds: other work on the machine only ever adds.

use std::process::{Command, ExitCode};

use crate::fuzz_oracle::oracle::{self, Found};
use crate::workspace::{cargo, target_dir};
use crate::{Result, step};

/// A case, and the median nanoseconds of a pair in it.
type Figure = (String, f64);

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
    let (mut theirs, mut own) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        keep_least(&mut theirs, figures(&mut Command::new(&torch))?);
        keep_least(&mut own, figures(&mut Command::new(&ours))?);
    }
    println!("\n{:56} {:>9} {:>9} {:>7}", "ns for an allocation and its free", "PyTorch", "ours", "ratio");
    for (case, ns) in own {
        if let Some((_, torch_ns)) = theirs.iter().find(|(name, _)| *name == case) {
            println!("{case:56} {torch_ns:9.1} {ns:9.1} {:7.3}", ns / torch_ns);
        }
    }
    Ok(ExitCode::SUCCESS)
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

fn keep_least(least: &mut Vec<Figure>, new: Vec<Figure>) {
    for (case, ns) in new {
        match least.iter_mut().find(|(name, _)| *name == case) {
            Some((_, least)) => *least = least.min(ns),
            None => least.push((case, ns)),
        }
    }
}

#[cfg(test)]
mod tests;
