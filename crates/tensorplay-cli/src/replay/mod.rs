//! `tensorplay replay`: a recorded history, run again.

mod args;
mod chart;
mod given;

// A snapshot.
mod run;
mod settings;
mod terms;
mod recording;
mod history;
mod lane;
mod growable;
mod pools;
mod segments;
mod player;
mod comparison;
mod what_if;
mod report;
mod page;

// A trace of commands.
mod trace;
mod ops;
mod oracle;
mod number;

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
