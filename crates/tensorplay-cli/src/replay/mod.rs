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
mod recorder;
mod address_map;
mod player;
mod comparison;
mod what_if;
mod report;
mod page;

// A plan.
mod planning;

// A trace of commands.
mod trace;
mod ops;
mod oracle;
mod number;

#[cfg(test)]
mod tests;

pub(crate) use args::{Format, ReplayArgs};
pub(crate) use given::configuration;
pub(crate) use planning::{PlanArgs, plan_of, run_plan};
pub(crate) use recording::Recording;
pub(crate) use report::{Mode, OutOfMemory, Peaks};
pub(crate) use run::{Failure, device_memory, recordings, replay_all};
pub(crate) use terms::{Replayed, Terms};

use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run_replay(args: &ReplayArgs) -> ExitCode {
    match (&args.file, &args.ops) {
        (Some(file), _) => run::snapshot(file, args),
        (None, Some(ops)) => trace::run(ops, args),
        (None, None) => unreachable!("the arguments require one of them"),
    }
}
