//! `tensorplay replay`: a recorded history, run again.

mod args;
mod page;
#[cfg_attr(not(test), expect(dead_code, reason = "what plays a history shows it"))]
mod progress;
mod recording;
#[cfg_attr(not(test), expect(dead_code, reason = "what plays a history makes the outcome"))]
mod report;

#[cfg(test)]
mod tests;

pub(crate) use args::ReplayArgs;
pub(crate) use report::ReplayReport;

use std::process::ExitCode;

use crate::output;
use crate::snapshot::{InputError, Limits, initial_state, read_file};
use args::Format;
use recording::Recording;
use report::DeviceReport;

/// Runs the command: reads the file, and reports on every device that it has something about.
pub(crate) fn run_replay(args: &ReplayArgs) -> ExitCode {
    match report(args) {
        Ok(report) => match args.format {
            Format::Text => output::print(&page::page(&report)),
            Format::Json => output::print(&report.to_json()),
        },
        Err(error) => output::bad_input(&error),
    }
}

fn report(args: &ReplayArgs) -> Result<ReplayReport, InputError> {
    let snapshot = read_file(&args.file, Limits::default())?;
    let mut devices = Vec::new();
    for device in 0..snapshot.device_count() {
        let initial =
            initial_state(&snapshot, device).map_err(|reason| InputError::new(&args.file, reason))?;
        let recording = Recording::new(&snapshot, &initial);
        if !recording.is_empty() {
            devices.push(DeviceReport { recording, outcome: None });
        }
    }
    Ok(ReplayReport { file: args.file.display().to_string(), devices })
}
