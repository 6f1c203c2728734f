//! The `tensorplay` command as a person calls it.

#![expect(clippy::unwrap_used, reason = "what a helper finds amiss fails its test")]

mod cuda;

mod advise;
mod autograd_devices;
mod conformance;
mod cuda_tensors;
mod histories;
mod hostile;
mod info;
mod oracle;
mod plan;
mod recording;
mod replay;
mod report;
mod stitched;
mod written;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

const READ_FROM_ENVIRONMENT: [&str; 8] = [
    "LD_LIBRARY_PATH",
    "RUST_BACKTRACE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "FAKE_CUDA_TOTAL_BYTES",
    "TORCH_REPLAY_TRACE",
];

/// The command, with nothing of the caller's environment that it reads.
fn tensorplay() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorplay"));
    for name in READ_FROM_ENVIRONMENT {
        command.env_remove(name);
    }
    command
}

fn run<S: AsRef<OsStr>>(args: &[S]) -> Output {
    tensorplay().args(args).output().expect("the command was built")
}

/// The recordings in which much memory is live.
const LARGE: [&str; 8] = [
    "opt-zeroth-order-finetune",
    "transformer-train-fp32",
    "transformer-train-mixed",
    "transformer-2.7b-forward",
    "transformer-train-compiled-warm",
    "transformer-xl-expandable-warm",
    "transformer-xl-train-warm",
    "transformer-xl-fullstep-bf16-warm",
];

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/traces/{name}.pickle.gz"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The complaint of a run whose input was no use: one paragraph on the standard error and nothing else.
fn complaint(output: &Output) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(output.stdout.is_empty(), "something was written before the error");
    assert!(error.starts_with("error: ") && error.ends_with('\n') && error.lines().count() == 1, "{error}");
    assert!(!error.contains("panicked"), "{error}");
    error
}
