#![expect(clippy::print_stdout, clippy::print_stderr, reason = "examples answer on the terminal")]
//! [`run`]: the driver of an example, and its end.

use std::process::ExitCode;
use std::sync::Arc;

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{Driver, real};

/// What an example gives: nothing, or why it could not go on.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs an example on the machine's CUDA driver, or with the argument `--sim` on a simulated device, whose work runs
/// when somebody waits for it.
pub fn run(example: impl FnOnce(Arc<dyn Driver>) -> Result) -> ExitCode {
    let driver = if std::env::args().any(|argument| argument == "--sim") {
        SimDriver::new(SimConfig::with_bytes(4 << 30)) as Arc<dyn Driver>
    } else {
        match real::load() {
            Ok(driver) => driver,
            Err(why) => {
                println!("skipped: no CUDA driver\n({why}; --sim runs this on a simulated device)");
                return ExitCode::SUCCESS;
            }
        }
    };
    match example(driver) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
