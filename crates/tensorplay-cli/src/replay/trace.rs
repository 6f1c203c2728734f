//! A trace of commands, run for the oracle's lines.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use super::args::ReplayArgs;
use super::oracle::{self, Setting, Stop};
use super::{given, ops};
use crate::output;

/// The stand-in driver's memory of a device, in bytes.
const DEVICE_MEMORY: u64 = 80 << 30;

/// Prints what `torch_replay` prints for the trace in a file.
pub(super) fn run(file: &Path, args: &ReplayArgs) -> ExitCode {
    match lines(file, args) {
        Ok(lines) => output::print(&lines),
        Err(why) => output::bad_input(&why),
    }
}

fn lines(file: &Path, args: &ReplayArgs) -> Result<String, String> {
    let in_file = |why: &dyn Display| format!("{}: {why}", file.display());
    let config = match &args.conf {
        Some(text) => given::configuration(text)?,
        None => given::configuration_from_env()?,
    };
    let memory = match args.device_memory {
        Some(size) => given::device_memory(size)?,
        None => given::device_memory_from_env()?.unwrap_or(DEVICE_MEMORY),
    };
    let with_entries = std::env::var_os("TORCH_REPLAY_TRACE").is_some();
    let bytes = std::fs::read(file).map_err(|error| in_file(&error))?;
    let ops = ops::text(&bytes).and_then(ops::parse).map_err(|bad| in_file(&bad))?;
    let setting = Setting { device_memory: memory, devices: given::devices_from_env()?, with_entries };
    oracle::run(&ops, config, setting).map_err(|stop| match stop {
        Stop::BadTrace(bad) => in_file(&bad),
        Stop::Allocator(error) => in_file(&error),
    })
}
