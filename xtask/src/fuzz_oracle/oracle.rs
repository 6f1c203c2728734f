//! Where PyTorch's allocator is: found, or built from `xtask/oracle`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::workspace::root;
use crate::{Result, step};

/// What `build.sh` calls, each with arguments that do nothing. (`unzip --version` is an error.)
const NEEDED: [&[&str]; 4] =
    [&["bash", "--version"], &["python3", "-m", "pip", "--version"], &["unzip", "-v"], &["g++", "--version"]];

/// The oracle, or why it is not to be had here.
#[derive(Debug)]
pub(crate) enum Found {
    At(PathBuf),
    Missing(String),
}

/// Finds a program, such as `torch_replay`, under `ORACLE_DIR` (by default `~/.cache/pytorch-oracle`), and builds
/// it when it is not there. One that is there is taken as it is: remove it to have it built again.
///
/// # Errors
/// A command could not be started.
pub(crate) fn find(program: &str) -> Result<Found> {
    let Some(folder) = folder() else {
        return Ok(Found::Missing("neither ORACLE_DIR nor HOME is set".to_owned()));
    };
    let program = folder.join("build").join(program);
    if program.exists() {
        return Ok(Found::At(program));
    }
    if let Some(command) = NEEDED.iter().find(|command| !runs(command)) {
        let command = command.join(" ");
        return Ok(Found::Missing(format!("the oracle is not built, and `{command}` does not run here")));
    }
    let script = root().join("xtask/oracle/build.sh");
    let status = step::run(Command::new("bash").arg(script).env("ORACLE_DIR", folder))?;
    Ok(if status.success() && program.exists() {
        Found::At(program)
    } else {
        Found::Missing(format!("the oracle could not be built ({status})"))
    })
}

/// Where the oracle is built, by the same rule as in `build.sh`.
fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("ORACLE_DIR").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(cache.join("pytorch-oracle"))
    })
}

/// Whether a command, its program first, can be run and succeeds.
pub(crate) fn runs(command: &[&str]) -> bool {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
