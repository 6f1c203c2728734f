//! `cargo xtask bench`: the benches, or the allocator beside PyTorch's.

use std::process::ExitCode;

use crate::workspace::cargo;
use crate::{Result, step};

mod beside_torch;

/// A group of benches.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Group {
    /// The device allocator.
    Alloc,
    /// The deferred-free queue.
    DeferredFree,
    /// The smallest operators and views.
    TensorSmall,
    /// Large operators.
    TensorLarge,
    /// Chains, and steps of training.
    Training,
}

impl Group {
    /// The name of the bench's file.
    fn bench(self) -> &'static str {
        match self {
            Self::Alloc => "allocator",
            Self::DeferredFree => "deferred_free",
            Self::TensorSmall => "tensor_small",
            Self::TensorLarge => "tensor_large",
            Self::Training => "training",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One group alone
    group: Option<Group>,
    /// Times PyTorch's allocator and ours in turn, instead, and prints the ratios; so many rounds
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "11", conflicts_with = "criterion")]
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
        if !matches!(args.group, None | Some(Group::Alloc)) {
            return Err("--oracle times the allocator: `cargo xtask bench alloc --oracle`".into());
        }
        return beside_torch::compare(rounds.max(1));
    }
    let mut bench = cargo();
    bench.args(["bench", "--package", "tensorplay-benches"]);
    if let Some(group) = args.group {
        bench.args(["--bench", group.bench()]);
    }
    if !args.criterion.is_empty() {
        bench.arg("--").args(&args.criterion);
    }
    Ok(if step::run(&mut bench)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
