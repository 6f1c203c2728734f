//! The workspace's own commands, run as `cargo xtask COMMAND`: one file a command.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program: the terminal is where it answers")]

use std::process::ExitCode;

use clap::Parser;

mod asan;
mod bench;
mod beside_cudarc;
mod ci;
mod conformance;
mod cuda;
mod demo;
mod doc;
mod fuzz;
mod fuzz_oracle;
mod instructions;
mod layers;
mod nightly;
mod soak;
mod step;
mod test;
mod test_totals;
mod unsafe_modules;
mod workspace;

/// What a command gives: the exit code to end with, or why it could not go on.
type Result<T = ExitCode> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The workspace's own commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Replays a recorded PyTorch training run through the caching allocator
    Demo,
    /// Runs every test of the workspace; the last line printed is `N passed, N failed`
    Test,
    /// Runs the benches, or times the allocator beside PyTorch's; what follows `--` goes to criterion
    Bench(bench::Args),
    /// Builds the documentation site in `target/doc`: the crates' pages and the guides
    Doc,
    /// The whole check: format, lints, documentation, layers, every crate alone, then the tests
    Ci,
    /// Counts the instructions of hot paths, where valgrind is installed
    Instructions,
    /// Runs the recorded calls of PyTorch's operators, and writes down which pass and which operators there are
    Conformance,
    /// Makes the stand-in of the CUDA driver
    #[command(subcommand)]
    Cuda(cuda::Args),
    /// Compares the caching allocator with PyTorch's own on random traces
    FuzzOracle(fuzz_oracle::Args),
    /// Runs the fuzz targets, where a nightly is installed
    Fuzz(fuzz::Args),
    /// Runs the tests of the memory crates under AddressSanitizer, where a nightly is installed
    Asan,
    /// Runs long random programs over the caching allocator, under its invariants and the race detector
    Soak(soak::Args),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Demo => demo::run(),
        Command::Test => test::run(),
        Command::Bench(args) => bench::run(&args),
        Command::Doc => doc::run(),
        Command::Ci => ci::run(),
        Command::Instructions => instructions::run(),
        Command::Conformance => conformance::run(),
        Command::Cuda(args) => cuda::run(&args),
        Command::FuzzOracle(args) => fuzz_oracle::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Asan => asan::run(),
        Command::Soak(args) => soak::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
