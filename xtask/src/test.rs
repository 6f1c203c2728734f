//! `cargo xtask test`: every test that stable Rust alone can run, on any machine.
//!
//! Unit tests, integration tests and doctests of all crates; then those that want a CUDA driver, on its stand-in;
//! then the tests that features add; then the loom models, which need a build of their own. It goes on after a failure, to say all that fails. The last line
//! is `N passed, N failed`, or `N passed, N failed, N skipped`.

use std::process::{Command, ExitCode};

use crate::Result;
use crate::cuda::standin;
use crate::step::{self, Steps};
use crate::test_totals::Totals;
use crate::workspace::{cargo, libraries, target_dir};

/// Features off by default that have tests of their own: package and features.
const FEATURES_WITH_TESTS: &[(&str, &str)] = &[("aten", "ndarray"), ("c10-core", "leak-tracking,tracing")];

/// Runs the tests.
///
/// # Errors
/// Cargo's metadata cannot be read. Failed tests and builds are no error: they show in the exit code.
pub(crate) fn run() -> Result {
    run_as_part_of(&Steps::begin())
}

/// Runs the tests as the last steps of something larger.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_as_part_of(steps: &Steps) -> Result {
    let mut totals = Totals::default();
    for (at, (heading, mut command)) in runs()?.into_iter().enumerate() {
        steps.step(&heading, || run_tests(&mut command, &mut totals))?;
        if at == 0 {
            steps.step("tests on the CUDA driver's stand-in", || run_on_standin(&mut totals))?;
        }
    }
    if totals == Totals::default() {
        eprintln!("error: no test ran");
    }
    println!("\n{totals}");
    Ok(if totals.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn runs() -> Result<Vec<(String, Command)>> {
    let mut all = cargo();
    all.args(["test", "--workspace", "--no-fail-fast"]);
    let mut runs = vec![("tests of all crates".to_owned(), all)];
    for (package, features) in FEATURES_WITH_TESTS {
        let mut with = cargo();
        with.args(["test", "--no-fail-fast", "--package", package, "--features", features]);
        runs.push((format!("tests of {package} with {features}"), with));
    }
    for (package, models) in loom_models()? {
        let mut loom = cargo();
        loom.args(["test", "--no-fail-fast", "--package", &package]);
        models.iter().for_each(|model| _ = loom.args(["--test", model]));
        loom.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_dir()?.join("loom"));
        runs.push((format!("loom models of {package}"), loom));
    }
    Ok(runs)
}

/// The packages with test targets named `loom…`, and those targets.
fn loom_models() -> Result<Vec<(String, Vec<String>)>> {
    let models = libraries()?.into_iter().map(|package| {
        let is_model = |target: &&cargo_metadata::Target| target.is_test() && target.name.starts_with("loom");
        let models = package.targets.iter().filter(is_model).map(|target| target.name.clone()).collect();
        (package.name.to_string(), models)
    });
    Ok(models.filter(|(_, models): &(_, Vec<_>)| !models.is_empty()).collect())
}

/// Runs what wants a CUDA driver, on its stand-in. The programs are those that the first run has built.
fn run_on_standin(totals: &mut Totals) -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("skipped: the CUDA driver's stand-in is for Linux");
        return Ok(());
    }
    let runs = match standin::runs() {
        Ok(runs) => runs,
        Err(error) => {
            eprintln!("error: {error}");
            totals.add_run(false);
            return Ok(());
        }
    };
    for mut tests in runs.tests {
        run_tests(&mut tests, totals)?;
    }
    let mut package = runs.package;
    totals.add_run(step::run(&mut package)?.success());
    Ok(())
}

/// A run that fails without a failed test, because something did not build or died, counts as one failed.
fn run_tests(command: &mut Command, totals: &mut Totals) -> Result<()> {
    let failed_before = totals.failed();
    let status = step::run_reading(command, |line| totals.read_line(line))?;
    if !status.success() && totals.failed() == failed_before {
        eprintln!("error: `{}` failed: {status}", step::text_of(command));
        totals.add_run(false);
    }
    Ok(())
}
