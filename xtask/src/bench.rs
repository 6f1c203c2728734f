//! `cargo xtask bench`: the criterion benches.

use std::process::ExitCode;

use crate::workspace::cargo;
use crate::{Result, step};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Arguments for criterion: a filter, `--quick`, `--save-baseline NAME`, …
    #[arg(last = true)]
    criterion: Vec<String>,
}

/// Runs the benches.
///
/// # Errors
/// Cargo could not be started.
pub(crate) fn run(args: &Args) -> Result {
    let mut bench = cargo();
    bench.args(["bench", "--package", "tensorplay-benches"]);
    if !args.criterion.is_empty() {
        bench.arg("--").args(&args.criterion);
    }
    Ok(if step::run(&mut bench)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
