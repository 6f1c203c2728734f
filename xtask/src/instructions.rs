//! `cargo xtask instructions`: how many instructions the allocator's hot paths and the smallest operators take, counted
//! by valgrind, against the limits in `xtask/instructions.txt`.
//!
//! Instructions are counted and not timed, so that a loaded machine gives the same answer. The number of one call is
//! the difference of two runs divided by the calls that one does more, so that the start does not count.

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
    let mut build = cargo();
    build.args(["build", "--release"]);
    for Limit { program, .. } in &limits {
        build.args(["--package", program]);
    }
    step::must_succeed(&mut build)?;
    let mut beyond = Vec::new();
    println!("{:30} {:>8} {:>8}", "", "counted", "limit");
    for Limit { program, case, limit } in limits {
        let path = target_dir()?.join("release").join(format!("{program}{}", std::env::consts::EXE_SUFFIX));
        let count = (counted(&path, case, MORE)? - counted(&path, case, FEW)?) / (MORE - FEW);
        let name = format!("{program} {case}");
        println!("{name:30} {count:8} {limit:8}");
        if count > limit {
            beyond.push(format!("{name} takes {count} instructions, and may take {limit}"));
        }
    }
    if beyond.is_empty() { Ok(()) } else { Err(beyond.join("; ").into()) }
}

/// What a case of a program may take.
struct Limit {
    program: &'static str,
    case: &'static str,
    limit: u64,
}

fn limits() -> Result<Vec<Limit>> {
    let lines = LIMITS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [program, case, limit] = words[..] else { return Err(format!("{line:?} is no limit").into()) };
            Ok(Limit { program, case, limit: limit.parse()? })
        })
        .collect()
}

/// The instructions of a run.
fn counted(program: &Path, case: &str, calls: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &calls.to_string()]);
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
