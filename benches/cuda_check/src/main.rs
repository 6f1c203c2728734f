//! `cuda-check`: sees on a machine with a GPU whether the driver, the allocator and graphs do what they should, and
//! what they cost. `cargo xtask cuda package` puts it into a folder with all that it needs.
//!
//! `cuda-check all` runs every part as a process of its own, so that one that dies or hangs stops no other, and writes
//! what came of them as a table and as JSON. A part prints its figures as lines (`figure`) and ends with 0 when all
//! is well.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program: the terminal is where it answers")]

mod all;
mod facts;
mod figure;
mod graphs;
mod ipc;
mod process;
mod report;
mod stress;
mod timings;

use std::process::ExitCode;

use clap::Parser;

/// What a part gives: nothing, or what is wrong.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Sees whether the CUDA driver, the allocator and graphs do what they should, and what they cost.
#[derive(Debug, Parser)]
enum Command {
    /// Runs every part, prints a table, and writes results.json
    All(all::Args),
    /// Says what machine this is
    Facts,
    /// Allocates, copies and frees at random on many threads and streams, and checks every content
    Stress(stress::Args),
    /// Captures graphs that share a pool, and launches them while memory is short
    Graphs(graphs::Args),
    /// Shares memory and events with another process
    Ipc,
    /// The other process of `ipc`
    #[command(hide = true)]
    IpcPeer(ipc::PeerArgs),
    /// What calls cost
    Timings(timings::Args),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::All(args) => return all::run(&args),
        Command::Facts => return facts::run(),
        Command::Stress(args) => stress::run(&args),
        Command::Graphs(args) => graphs::run(&args),
        Command::Ipc => ipc::run(),
        Command::IpcPeer(args) => ipc::run_peer(&args),
        Command::Timings(args) => timings::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
