//! `cargo xtask instructions`: how many instructions the allocator's hot paths take, counted by valgrind, against
//! the limits in `xtask/instructions.txt`.
//!
//! Instructions are counted and not timed, so that a loaded machine gives the same answer. A pair's number is the
//! difference of two runs divided by the pairs that one does more, so that the start does not count.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::workspace::{cargo, target_dir};
use crate::{Result, step};

const LIMITS: &str = include_str!("../instructions.txt");
const FEW: u64 = 20_000;
const MORE: u64 = 40_000;

/// Counts all cases.
///
/// # Errors
/// The program could not be built, or a count is beyond its limit.
pub(crate) fn run() -> Result {
    check()?;
    Ok(ExitCode::SUCCESS)
}

/// As [`run`], as a part of another command. Says `skipped` where there is no valgrind.
///
/// # Errors
/// As [`run`].
pub(crate) fn check() -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: no valgrind");
        return Ok(());
    }
    let build = ["build", "--release", "--package", "alloc-pairs"];
    step::must_succeed(cargo().args(build))?;
    let program = target_dir()?.join("release").join(format!("alloc-pairs{}", std::env::consts::EXE_SUFFIX));
    let mut beyond = Vec::new();
    println!("{:16} {:>8} {:>8}", "a pair", "counted", "limit");
    for (case, limit) in limits()? {
        let count = (counted(&program, case, MORE)? - counted(&program, case, FEW)?) / (MORE - FEW);
        println!("{case:16} {count:8} {limit:8}");
        if count > limit {
            beyond.push(format!("{case} takes {count} instructions, and may take {limit}"));
        }
    }
    if beyond.is_empty() { Ok(()) } else { Err(beyond.join("; ").into()) }
}

fn limits() -> Result<Vec<(&'static str, u64)>> {
    let lines = LIMITS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (case, limit) = line.split_once(' ').ok_or_else(|| format!("{line:?} is no limit"))?;
            Ok((case, limit.trim().parse()?))
        })
        .collect()
}

/// The instructions of a run.
fn counted(program: &Path, case: &str, pairs: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &pairs.to_string()]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match count.filter(|_| output.status.success()) {
        Some(count) => Ok(count),
        None => Err(format!("`{}` failed: {text}", step::text_of(&command)).into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_limit_is_a_case_and_a_number() {
        assert!(super::limits().is_ok_and(|limits| !limits.is_empty()));
    }
}
