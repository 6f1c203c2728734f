//! `cargo xtask instructions`: how many instructions hot paths take, counted by valgrind, against the limits in
//! `xtask/instructions.txt`.
//!
//! Instructions are counted and not timed, so that a loaded machine gives the same answer. The number is the difference
//! of two runs divided by what one does more often, so that the start does not count.

use std::collections::BTreeSet;
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
    let limits = limits()?;
    let programs: BTreeSet<&str> = limits.iter().map(|limit| limit.program).collect();
    let mut build = cargo();
    build.args(["build", "--release"]);
    programs.iter().for_each(|program| _ = build.args(["--package", program]));
    step::must_succeed(&mut build)?;
    let folder = target_dir()?.join("release");
    let mut beyond = Vec::new();
    println!("{:12} {:16} {:>8} {:>8}", "program", "case", "counted", "limit");
    for Limit { program, case, limit } in limits {
        let path = folder.join(format!("{program}{}", std::env::consts::EXE_SUFFIX));
        let count = (counted(&path, case, MORE)? - counted(&path, case, FEW)?) / (MORE - FEW);
        println!("{program:12} {case:16} {count:8} {limit:8}");
        if count > limit {
            beyond.push(format!("{program} {case} takes {count} instructions, and may take {limit}"));
        }
    }
    if beyond.is_empty() { Ok(()) } else { Err(beyond.join("; ").into()) }
}

/// What a program may take for a case.
struct Limit {
    program: &'static str,
    case: &'static str,
    limit: u64,
}

fn limits() -> Result<Vec<Limit>> {
    let lines = LIMITS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [program, case, limit] => Ok(Limit { program, case, limit: limit.parse()? }),
            _ => Err(format!("{line:?} is no limit").into()),
        })
        .collect()
}

/// The instructions of a run.
fn counted(program: &Path, case: &str, times: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &times.to_string()]);
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
