//! `cargo xtask cuda`: the CUDA driver's stand-in, and the package for a machine with a GPU.

use std::process::ExitCode;

use clap::Subcommand;

use crate::Result;

mod artifacts;
pub(crate) mod standin;

/// What is made.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Builds the stand-in of the CUDA driver, as `libcuda.so` in `target/cuda-standin`
    Standin,
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
    }
    Ok(ExitCode::SUCCESS)
}
