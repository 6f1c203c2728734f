//! `cargo xtask cuda`: the CUDA driver's stand-in, and the package for a machine with a GPU.

use std::process::ExitCode;

use clap::Subcommand;

use crate::Result;

mod artifacts;
mod package;
pub(crate) mod standin;

/// What is made.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Builds the stand-in of the CUDA driver, as `libcuda.so` in `target/cuda-standin`
    Standin,
    /// Builds a folder that a machine with a GPU runs by `./run.sh`, without cargo and network
    Package(package::Args),
}

/// Makes it.
///
/// # Errors
/// Something does not build, or a file cannot be written.
pub(crate) fn run(args: &Args) -> Result {
    match args {
        Args::Standin => {
            let folder = standin::build()?;
            println!("run a program on it by LD_LIBRARY_PATH={}", folder.display());
        }
        Args::Package(args) => package::build(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
