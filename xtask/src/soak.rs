//! `cargo xtask soak`: long random programs over the caching allocator, under its invariants and the simulator's
//! race detector.
//!
//! The programs are the test `soak` of c10-cuda, built for release; they print a line a seed. A failure prints the
//! command that runs its seed alone.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args as ClapArgs;

use crate::workspace::cargo;
use crate::{Result, step};

/// What the programs are.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Operations a seed
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Operations between two looks at the invariants
    #[arg(long, default_value_t = 256)]
    check_every: u64,
}

/// Runs the programs.
///
/// # Errors
/// The programs could not be built or started. One that fails shows in the exit code.
pub(crate) fn run(args: &Args) -> Result {
    let begun = Instant::now();
    let mut soak = cargo();
    soak.args(["test", "--release", "--package", "c10-cuda", "--test", "it", "--"]);
    soak.args(["soak::soak", "--exact", "--nocapture"]);
    soak.env("SOAK_OPERATIONS", args.operations.to_string());
    soak.env("SOAK_SEEDS", args.seeds.to_string());
    soak.env("SOAK_FIRST_SEED", args.first_seed.to_string());
    soak.env("SOAK_CHECK_EVERY", args.check_every.to_string());
    let mut done = 0;
    let status = step::run_reading(&mut soak, |line| {
        done += u64::from(line.starts_with("soak: ") && line.contains(" of "))
    })?;
    let seconds = begun.elapsed().as_secs();
    println!("{done} of {} seeds of {} operations are good, in {seconds} s", args.seeds, args.operations);
    let good = status.success() && done == args.seeds;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
