//! `cargo xtask demo`: the memory of a recorded PyTorch training run, replayed, and what a setting would change; then
//! a training run of our own.

use std::process::{Command, ExitCode, Stdio};

use crate::workspace::cargo;
use crate::{Result, step};

/// A small language model, forward and backward, recorded by `torch.cuda.memory._dump_snapshot`.
const TRACE: &str = "crates/tensorplay-cli/testdata/traces/transformer-train-mixed.pickle.gz";

/// Between what the run needs as it was and what it needs with [`SETTING`].
const LITTLE_MEMORY: &str = "1040MiB";

/// Keeps large blocks whole, so that less of them is lost to fragmentation.
const SETTING: &str = "max_split_size_mb:32";

/// One epoch of an example.
const MNIST: [&str; 9] =
    ["run", "--quiet", "--release", "--package", "tensorplay", "--example", "mnist", "--", "--quick"];

/// Replays the recording as it was; then with less memory, where it does not fit; then with a setting that makes
/// it fit. Then trains a small network, and shows its memory.
///
/// # Errors
/// The program could not be built or started.
pub(crate) fn run() -> Result {
    step::must_succeed(cargo().args(["build", "--release", "--package", "tensorplay-cli"]))?;
    println!(
        "\nA PyTorch training run recorded what it asked of the GPU's memory. The same requests now go through\n\
         TensorPlay's caching allocator, on a simulated GPU. Every block should be where PyTorch put it.\n"
    );
    let as_it_was = step::run(&mut replay(&[]))?.code();

    println!("\nWould it have fitted in {LITTLE_MEMORY}?\n");
    let in_less = head_of(&mut replay(&["--device-memory", LITTLE_MEMORY]))?;

    println!("\nAnd with PYTORCH_CUDA_ALLOC_CONF={SETTING}?\n");
    let with_setting = head_of(&mut replay(&["--device-memory", LITTLE_MEMORY, "--conf", SETTING]))?;

    println!("\nYour own run: docs/replay.md says how to record it.");

    println!(
        "\nA training run of TensorPlay's: a small convolutional network learns handwritten digits for a moment.\n"
    );
    let trained = step::run(cargo().args(MNIST))?.code();

    let is_as_told = (as_it_was, in_less, with_setting, trained) == (Some(0), Some(1), Some(0), Some(0));
    Ok(if is_as_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay(options: &[&str]) -> Command {
    let mut replay = cargo();
    replay.args(["run", "--quiet", "--release", "--package", "tensorplay-cli", "--", "replay", TRACE]);
    replay.args(options);
    replay
}

/// Runs a replay and prints the first part of its page: what came of it, and the peaks. Gives its exit code.
fn head_of(replay: &mut Command) -> Result<Option<i32>> {
    println!("$ {}", step::text_of(replay));
    let output = replay.stderr(Stdio::inherit()).output()?;
    let page = String::from_utf8_lossy(&output.stdout);
    println!("{}", page.split("\n\nRecording").next().unwrap_or_default());
    Ok(output.status.code())
}
