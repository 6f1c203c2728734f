//! `cargo xtask asan`: the tests of the crates that hold `unsafe` code, under AddressSanitizer.
//!
//! It needs a nightly toolchain, and says `skipped: no nightly` where there is none.

use std::process::ExitCode;

use crate::nightly::Nightly;
use crate::{Result, step};

/// The crates: memory, devices, tensors and gradients.
const PACKAGES: [&str; 4] = ["c10-core", "c10-cuda", "aten", "tensorplay-autograd"];

/// Runs the tests.
///
/// # Errors
/// The tests could not be started. Failures show in the exit code.
pub(crate) fn run() -> Result {
    let nightly = match Nightly::find() {
        Ok(nightly) => nightly,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut tests = nightly.cargo("test", "-Zsanitizer=address", "asan")?;
    tests.args(["--lib", "--tests", "--no-fail-fast"]);
    PACKAGES.iter().for_each(|package| _ = tests.args(["--package", package]));
    // Tests leak what copies use that may still run, and ask for more memory than there is; both are meant.
    tests.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
    Ok(if step::run(&mut tests)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
