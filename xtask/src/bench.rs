//! `cargo xtask bench`: the benches, or the allocator beside PyTorch's.

use std::process::ExitCode;

use crate::workspace::cargo;
use crate::{Result, step};

mod beside_torch;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Times PyTorch's allocator and ours in turn, instead, and prints the ratios; so many rounds
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "3", conflicts_with = "criterion")]
    oracle: Option<usize>,
    /// Arguments for criterion: a filter, `--quick`, `--save-baseline NAME`, …
    #[arg(last = true)]
    criterion: Vec<String>,
}

/// Runs the benches.
///
/// # Errors
/// Cargo could not be started; of the comparison, a program could not be built or failed.
pub(crate) fn run(args: &Args) -> Result {
    if let Some(rounds) = args.oracle {
        return beside_torch::compare(rounds.max(1));
    }
    let mut bench = cargo();
    bench.args(["bench", "--package", "tensorplay-benches"]);
    if !args.criterion.is_empty() {
        bench.arg("--").args(&args.criterion);
    }
    Ok(if step::run(&mut bench)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
