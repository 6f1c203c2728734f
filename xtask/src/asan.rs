//! `cargo xtask asan`: the tests of the crates that hold `unsafe` code, under AddressSanitizer.
//!
//! It needs a nightly toolchain, and says `skipped: no nightly` where there is none.

use std::process::ExitCode;

use crate::nightly::Nightly;
use crate::{Result, step};

/// The crates: memory and devices.
const PACKAGES: [&str; 2] = ["c10-core", "c10-cuda"];

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
    // Tests leak what copies use that may still run; that is no fault of theirs.
    tests.env("ASAN_OPTIONS", "detect_leaks=0");
    Ok(if step::run(&mut tests)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
