//! `cargo xtask ci`: the whole check, and all that CI runs.
//!
//! It stops at the first step that fails and names the command. The tests come last, so that their closing
//! line is the last line.

use std::process::Command;

use crate::step::Steps;
use crate::workspace::{cargo, libraries};
use crate::{Result, beside_cudarc, conformance, doc, instructions, layers, test, unsafe_modules};

/// Runs the whole check.
///
/// # Errors
/// A step before the tests failed.
pub(crate) fn run() -> Result {
    let steps = Steps::begin();
    steps.command("format", &mut cargo_with(&["fmt", "--all", "--check"]))?;
    steps.step("layers", layers::check_workspace)?;
    steps.step("modules with unsafe code", unsafe_modules::check)?;
    steps.command("lints", &mut clippy(&["--workspace"]))?;
    for package in libraries()?.iter().filter(|package| !package.features.is_empty()) {
        let name = package.name.as_str();
        steps.command(
            &format!("lints of {name} without its features"),
            &mut clippy(&["--package", name, "--no-default-features"]),
        )?;
        steps.command(
            &format!("lints of {name} with all its features"),
            &mut clippy(&["--package", name, "--all-features"]),
        )?;
    }
    steps.step("documentation", doc::build)?;
    for package in libraries()? {
        let alone = ["check", "--package", package.name.as_str()];
        steps.command(&format!("{} alone", package.name), &mut cargo_with(&alone))?;
        let mut bare = cargo_with(&alone);
        bare.arg("--no-default-features");
        steps.command(&format!("{} alone, without its features", package.name), &mut bare)?;
    }
    steps.step("c10-cuda beside what others ask of cudarc", beside_cudarc::check)?;
    steps.step("conformance", conformance::check)?;
    steps.step("instructions of hot paths", instructions::check)?;
    test::run_as_part_of(&steps)
}

fn cargo_with(args: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(args);
    cargo
}

fn clippy(packages: &[&str]) -> Command {
    let mut clippy = cargo_with(&["clippy", "--all-targets"]);
    clippy.args(packages).args(["--", "-D", "warnings"]);
    clippy
}
