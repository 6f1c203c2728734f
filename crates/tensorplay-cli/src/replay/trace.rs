//! A trace of commands, run for the oracle's lines.

use std::path::Path;
use std::process::ExitCode;

use c10_cuda::Config;

use super::args::ReplayArgs;
use super::ops;
use super::oracle::{self, Stop};
use crate::output;

/// The stand-in driver's memory of a device, in bytes.
const DEVICE_MEMORY: u64 = 80 << 30;

/// Prints what `torch_replay` prints for the trace in a file.
pub(super) fn run(file: &Path, args: &ReplayArgs) -> ExitCode {
    let name = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return output::bad_input(&format_args!("{name}: {error}")),
    };
    let ops = match ops::parse(&text) {
        Ok(ops) => ops,
        Err(bad) => return output::bad_input(&format_args!("{name}: {bad}")),
    };
    let config = match args.conf.as_deref().map_or_else(Config::from_env, Config::parse) {
        Ok(config) => config,
        Err(error) => return output::bad_input(&error),
    };
    let memory = match device_memory(args) {
        Ok(bytes) => bytes,
        Err(why) => return output::bad_input(&why),
    };
    match oracle::run(&ops, config, memory) {
        Ok(lines) => output::print(&lines),
        Err(Stop::BadTrace(why)) => output::bad_input(&format_args!("{name}: {why}")),
        Err(Stop::Allocator(error)) => output::bad_input(&error),
    }
}

fn device_memory(args: &ReplayArgs) -> Result<u64, String> {
    const VARIABLE: &str = "FAKE_CUDA_TOTAL_BYTES";
    if let Some(size) = args.device_memory {
        return Ok(size.0);
    }
    match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => {
            text.parse().map_err(|_| format!("{VARIABLE} is '{text}', and not a number of bytes"))
        }
        _ => Ok(DEVICE_MEMORY),
    }
}
