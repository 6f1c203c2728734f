//! `cargo xtask demo`: a recorded PyTorch training run through the caching allocator.

use std::process::{Command, ExitCode};

use crate::workspace::cargo;
use crate::{Result, step};

/// A small language model, forward and backward, recorded by `torch.cuda.memory._dump_snapshot`.
const TRACE: &str = "crates/tensorplay-cli/testdata/traces/transformer-train-fp32.pickle.gz";

/// Less than the run reserves at its peak.
const TOO_LITTLE_MEMORY: &str = "900MiB";

/// Replays the recording twice: as it was, and on a device with less memory.
///
/// # Errors
/// Cargo could not be started.
pub(crate) fn run() -> Result {
    println!("Replays the memory that a PyTorch training run asked for, on a simulated device.");
    let first = exit_code(&mut replay(&[]))?;
    if first != 0 {
        return Ok(ExitCode::from(first));
    }
    println!("\nThe same run on a device with {TOO_LITTLE_MEMORY}.");
    let second = exit_code(&mut replay(&["--device-memory", TOO_LITTLE_MEMORY]))?;
    Ok(ExitCode::from(second))
}

fn replay(options: &[&str]) -> Command {
    let mut replay = cargo();
    replay
        .args(["run", "--quiet", "--release", "--package", "tensorplay-cli", "--", "replay", TRACE])
        .args(options);
    replay
}

/// The code that a command ended with; a signal counts as 1.
fn exit_code(command: &mut Command) -> Result<u8> {
    let status = step::run(command)?;
    Ok(status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1)))
}
