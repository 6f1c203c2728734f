//! `tensorplay replay`: a recorded history, run again.

mod args;
mod history;
mod number;
mod ops;
mod oracle;
mod page;
mod player;
mod progress;
mod recording;
mod report;
mod run;
mod settings;
mod trace;

#[cfg(test)]
mod tests;

pub(crate) use args::ReplayArgs;

use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run_replay(args: &ReplayArgs) -> ExitCode {
    match (&args.file, &args.ops) {
        (Some(file), _) => run::snapshot(file, args),
        (None, Some(ops)) => trace::run(ops, args),
        (None, None) => unreachable!("the arguments require one of them"),
    }
}
