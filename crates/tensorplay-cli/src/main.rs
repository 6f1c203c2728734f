//! The `tensorplay` command: replays PyTorch memory snapshots.
//!
//! Exit codes: 0 when all is as wanted; 1 when a replay differs from its recording or runs out of memory, or
//! the output cannot be written; 2 when the input or the arguments are no use. Results go to the standard
//! output in one piece, so that an error never leaves half of one.

mod conf_text;
mod info;
#[cfg(test)]
mod op;
mod output;
mod progress;
mod replay;
mod size;
mod snapshot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Replays PyTorch memory snapshots through TensorPlay's caching allocator.
#[derive(Debug, Parser)]
#[command(name = "tensorplay", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::ReplayArgs),
    /// Shows the version, the features of this build, the devices it finds, and the allocator's configuration.
    Info,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Replay(args) => replay::run_replay(&args),
        Command::Info => match info::info() {
            Ok(text) => output::print(&text),
            Err(error) => output::bad_input(&error),
        },
    }
}
