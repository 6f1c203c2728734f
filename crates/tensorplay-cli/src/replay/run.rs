//! A snapshot, replayed and reported.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use c10_cuda::driver::sim::MAX_DEVICES;
use c10_cuda::plan::Plan;
use c10_cuda::{Config, Error, Placement};

use super::args::{Format, ReplayArgs};
use super::recording::Recording;
use super::report::{DeviceReport, Mode, ReplayReport};
use super::settings::{for_comparison, recorded_config};
use super::terms::Terms;
use super::{given, page};
use crate::output;
use crate::progress::Progress;
use crate::snapshot::{InputError, Limits, ReadError, initial_state, read_file};

/// Reads the file, replays every device that it has something about, and reports.
pub(super) fn snapshot(file: &Path, args: &ReplayArgs) -> ExitCode {
    let report = match replay(file, args) {
        Ok(report) => report,
        Err(failure) => return output::bad_input(&failure),
    };
    let printed = match args.format {
        Format::Text => output::print(&page::page(&report)),
        Format::Json => output::print(&report.to_json()),
    };
    if report.as_wanted { printed } else { ExitCode::FAILURE }
}

/// Why nothing could be replayed.
pub(super) enum Failure {
    Input(InputError),
    Argument(String),
    Replay { file: String, device: usize, error: Error },
}

fn replay(file: &Path, args: &ReplayArgs) -> Result<ReplayReport, Failure> {
    let given = args.conf.as_deref().map(given::configuration).transpose().map_err(Failure::Argument)?;
    let memory = args.device_memory.map(given::device_memory).transpose().map_err(Failure::Argument)?;
    if memory == Some(0) {
        return Err(Failure::Argument("--device-memory: a device of 0 bytes holds nothing".into()));
    }
    let plan = args.plan.as_deref().map(Plan::load).transpose();
    let plan = plan.map_err(|error| Failure::Argument(format!("--plan: {error}")))?;
    let input = |reason| Failure::Input(InputError::new(file, reason));
    let snapshot = {
        let _reading = Progress::endless("Reading");
        read_file(file, Limits::default()).map_err(Failure::Input)?
    };
    let recorded = recorded_config(&snapshot);
    let is_as_recorded = given.is_none() && memory.is_none() && plan.is_none();
    let mode = if is_as_recorded { Mode::Comparison } else { Mode::WhatIf };
    let notes = if given.is_none() { recorded.notes } else { Vec::new() };
    let config = match mode {
        Mode::Comparison => for_comparison(&recorded.config),
        // What PyTorch would do is asked.
        Mode::WhatIf => Config { search_after_synchronize: false, ..given.unwrap_or(recorded.config) },
    };
    let placement = plan.map_or_else(|| config.placement.clone(), |plan| Placement::Planned(Arc::new(plan)));
    let config = Config { placement, ..config };
    let terms = Terms { config, memory, mode, notes };
    let mut devices = Vec::new();
    for device in 0..snapshot.device_count() {
        let initial = initial_state(&snapshot, device).map_err(input)?;
        let recording = Recording::new(&snapshot, &initial);
        if recording.is_empty() {
            continue;
        }
        check(&recording).map_err(input)?;
        let replay = terms.replay(&snapshot, &initial).map_err(|error| Failure::Replay {
            file: file.display().to_string(),
            device,
            error,
        })?;
        devices.push(DeviceReport { recording, replay });
    }
    Ok(ReplayReport::new(file.display().to_string(), mode, devices))
}

/// Whether the simulator has room for the device.
pub(super) fn check(recording: &Recording) -> Result<(), ReadError> {
    let Recording { device, peak_reserved_bytes, .. } = recording;
    if *device >= MAX_DEVICES {
        return Err(ReadError::whole(format!(
            "has something about device {device}; at most {MAX_DEVICES} devices can be simulated"
        )));
    }
    if *peak_reserved_bytes > given::LARGEST_DEVICE {
        return Err(ReadError::whole(format!(
            "holds {peak_reserved_bytes} bytes at once on device {device}, which is more than any device has"
        )));
    }
    Ok(())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Argument(reason) => f.write_str(reason),
            Self::Replay { file, device, error } => write!(f, "{file}: device {device}: {error}"),
        }
    }
}
