//! The program as one runs it, on whatever driver there is.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;
use std::process::{Command, Output};

/// Runs it; the stand-in does what is issued at times that follow from a seed.
fn cuda_check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-check"));
    command.args(arguments).env("CUDA_STANDIN_COMPLETION", "seeded:1").output().unwrap()
}

/// What `facts` says, where there is a driver.
fn facts() -> Option<String> {
    let facts = cuda_check(&["facts"]);
    if !facts.status.success() {
        // Past libtest, which keeps what tests print.
        let _ = writeln!(std::io::stderr(), "skipped: no CUDA driver");
        return None;
    }
    Some(String::from_utf8(facts.stdout).unwrap())
}

/// Whether there is a driver; where there is none each part says so, and `all` ends with 2.
#[test]
fn without_a_driver_it_says_so() {
    let facts = cuda_check(&["facts"]);
    let printed = String::from_utf8(facts.stdout).unwrap();
    if facts.status.success() {
        assert!(printed.contains("fact\tdevice 0\t"), "{printed}");
        return;
    }
    assert!(!String::from_utf8(facts.stderr).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let all = cuda_check(&["all", "--short", "--results", folder.path().to_str().unwrap()]);
    assert_eq!(all.status.code(), Some(2));
    assert!(String::from_utf8(all.stdout).unwrap().starts_with("FAILED: facts: "));
    let written = std::fs::read_to_string(folder.path().join("results.json")).unwrap();
    assert!(written.contains("\"good\": false"), "{written}");
}

/// What is no lack of a driver does not pass for one, and what came of each part stands written: here no program of
/// the package lies beside the one that runs them.
#[cfg(unix)]
#[test]
fn a_package_without_its_programs_fails() {
    // A link, on the same file system: a copy would still be open for writing in what other tests start meanwhile, and
    // such a file cannot be run.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("all-alone");
    std::fs::hard_link(env!("CARGO_BIN_EXE_cuda-check"), &program).unwrap();
    let results = folder.path().join("results");
    let mut command = Command::new(&program);
    let all = command.args(["all", "--short", "--results", results.to_str().unwrap()]).output().unwrap();
    assert_eq!(all.status.code(), Some(1));
    let written = std::fs::read_to_string(results.join("results.json")).unwrap();
    assert_eq!(written.matches("\"did not start\"").count(), 13, "{written}");
}

/// What a run finds is in its figures and in how it ends: contents that are wrong would be its failure.
#[test]
fn a_short_stress_is_well() {
    if facts().is_none() {
        return;
    }
    for seed in ["--seed=1", "--seed=2"] {
        let stress = cuda_check(&["stress", seed, "--seconds=0.5", "--mib=8"]);
        let errors = String::from_utf8(stress.stderr).unwrap();
        assert!(stress.status.success(), "{seed}: {errors}");
        let printed = String::from_utf8(stress.stdout).unwrap();
        assert!(printed.contains("figure\tuses on another stream\t"), "{printed}");
    }
}

/// Between processes nothing may be left out: over the stand-in no system keeps them apart.
#[test]
fn two_processes_share() {
    let Some(facts) = facts() else { return };
    let ipc = cuda_check(&["ipc"]);
    let (printed, errors) = (String::from_utf8(ipc.stdout).unwrap(), String::from_utf8(ipc.stderr).unwrap());
    assert!(ipc.status.success(), "{errors}");
    for kind in ["plain", "expandable"] {
        let shared = format!("fact\t{kind} segments\tshared, written by both, closed");
        let said = printed.lines().any(|line| line.starts_with(&shared));
        assert!(said || !facts.contains("Simulated device"), "{printed}");
    }
}

/// A stress that sees nothing would say nothing of the allocator.
#[test]
fn the_stress_finds_what_the_allocator_was_not_told() {
    // How late a GPU's work is nobody knows.
    if !facts().is_some_and(|facts| facts.contains("Simulated device")) {
        return;
    }
    let stress = cuda_check(&["stress", "--forget-streams", "--seconds=2", "--mib=8"]);
    let errors = String::from_utf8(stress.stderr).unwrap();
    assert!(!stress.status.success() && errors.contains(" and not "), "{errors}");
}
