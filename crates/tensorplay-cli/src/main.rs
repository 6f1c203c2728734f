//! The `tensorplay` command: replays PyTorch memory snapshots, and recorded calls of operators.
//!
//! Exit codes: 0 when all is as wanted; 1 when a replay or a call differs from its recording or runs out of
//! memory, or the output cannot be written; 2 when the input or the arguments are no use. Results go to the
//! standard output in one piece, so that an error never leaves half of one.

mod advise;
mod by_address;
mod info;
mod op;
mod output;
mod progress;
mod prose;
mod replay;
mod report;
mod size;
mod snapshot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Replays what PyTorch did: memory snapshots through the caching allocator, recorded calls through the
/// operators.
#[derive(Debug, Parser)]
#[command(name = "tensorplay", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::ReplayArgs),
    Plan(replay::PlanArgs),
    Advise(advise::AdviseArgs),
    Report(report::ReportArgs),
    Op(op::OpArgs),
    /// Shows the version, the features of this build, the devices it finds, and the allocator's
    /// configuration.
    Info,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Replay(args) => replay::run_replay(&args),
        Command::Plan(args) => replay::run_plan(&args),
        Command::Advise(args) => advise::run_advise(&args),
        Command::Report(args) => report::run_report(&args),
        Command::Op(args) => op::run_op(&args),
        Command::Info => match info::info() {
            Ok(text) => output::print(&text),
            Err(error) => output::bad_input(&error),
        },
    }
}
