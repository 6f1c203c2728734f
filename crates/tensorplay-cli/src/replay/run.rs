//! A snapshot, replayed and reported.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use c10_core::DeviceIndex;
use c10_core::stat::StatArray;
use c10_cuda::alloc::memory_summary;
use c10_cuda::driver::sim::MAX_DEVICES;
use c10_cuda::{Config, DeviceStats, Error, OrderOfEquals};

use super::args::{Format, ReplayArgs};
use super::comparison::{Compared, compare};
use super::history::History;
use super::lane::Lanes;
use super::player::Stage;
use super::progress::Progress;
use super::recording::Recording;
use super::report::{self, Comparison, DeviceReport, Mode, OutOfMemory, Peaks, Replay, ReplayReport};
use super::settings::{for_comparison, recorded_config};
use super::what_if::what_if;
use super::{given, page};
use crate::conf_text::conf_text;
use crate::output;
use crate::snapshot::{
    AllocatorSettings, InitialState, InputError, Limits, ReadError, Snapshot, initial_state, read_file,
};

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
enum Failure {
    Input(InputError),
    Argument(String),
    Replay { file: String, error: Error },
}

fn replay(file: &Path, args: &ReplayArgs) -> Result<ReplayReport, Failure> {
    let given = args.conf.as_deref().map(given::configuration).transpose().map_err(Failure::Argument)?;
    let memory = args.device_memory.map(given::device_memory).transpose().map_err(Failure::Argument)?;
    let input = |reason| Failure::Input(InputError::new(file, reason));
    let snapshot = {
        let _reading = Progress::endless("Reading");
        read_file(file, Limits::default()).map_err(Failure::Input)?
    };
    let recorded = recorded_config(&snapshot);
    let mode = if given.is_none() && memory.is_none() { Mode::Comparison } else { Mode::WhatIf };
    let notes = if given.is_none() { recorded.notes } else { Vec::new() };
    let config = match mode {
        Mode::Comparison => for_comparison(&recorded.config),
        Mode::WhatIf => given.unwrap_or(recorded.config),
    };
    let terms = Terms { config, memory, mode, notes };
    let mut devices = Vec::new();
    for device in 0..snapshot.device_count() {
        let initial = initial_state(&snapshot, device).map_err(input)?;
        let recording = Recording::new(&snapshot, &initial);
        if recording.is_empty() {
            continue;
        }
        check(&recording).map_err(input)?;
        let replay = terms
            .device(&snapshot, &initial)
            .map_err(|error| Failure::Replay { file: file.display().to_string(), error })?;
        devices.push(DeviceReport { recording, replay });
    }
    Ok(ReplayReport::new(file.display().to_string(), mode, devices))
}

/// Whether the simulator has room for the device.
fn check(recording: &Recording) -> Result<(), ReadError> {
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

/// What is run on each device.
struct Terms {
    config: Config,
    /// In bytes; unlimited unless given.
    memory: Option<u64>,
    mode: Mode,
    notes: Vec<String>,
}

impl Terms {
    fn device(&self, snapshot: &Snapshot, initial: &InitialState) -> Result<Replay, Error> {
        let lanes = Lanes::new(snapshot, initial);
        let default = AllocatorSettings::default();
        let settings = snapshot.allocator_settings.as_ref().unwrap_or(&default);
        let history = History { trace: snapshot.trace(initial.device), initial, lanes: &lanes, settings };
        match self.mode {
            Mode::Comparison => self.compare(&history),
            Mode::WhatIf => self.what_if(&history),
        }
    }

    fn stage<'a>(&self, history: &History<'a>, order_of_equals: OrderOfEquals) -> Stage<'a> {
        Stage {
            config: Config { order_of_equals, ..self.config.clone() },
            device: history.initial.device as DeviceIndex,
            memory: self.memory.unwrap_or(given::LARGEST_DEVICE),
            lanes: &history.lanes.all,
            keeps_changes: self.mode == Mode::Comparison,
        }
    }

    /// Replays in both orders of equals, and takes the one that agrees with the recording on the most.
    fn compare(&self, history: &History<'_>) -> Result<Replay, Error> {
        let compare = |what, order| {
            compare(history, &self.stage(history, order), &Progress::new(what, history.trace.len()))
        };
        let address = compare("Replaying, 1 of 2", OrderOfEquals::Address)?;
        let registration = compare("Replaying, 2 of 2", OrderOfEquals::Registration)?;
        let (order, best) = match address.agreement().cmp(&registration.agreement()) {
            Ordering::Equal => (report::OrderOfEquals::Either, address),
            Ordering::Greater => (report::OrderOfEquals::Address, address),
            Ordering::Less => (report::OrderOfEquals::Registration, registration),
        };
        let Compared { placements, segments, first_difference, stats } = best;
        let comparison = Comparison { placements, segments, first_difference };
        Ok(self.replay(history, order, &stats, Some(comparison), None))
    }

    fn what_if(&self, history: &History<'_>) -> Result<Replay, Error> {
        let progress = Progress::new("Replaying", history.trace.len());
        let tried = what_if(history, &self.stage(history, OrderOfEquals::Registration), &progress)?;
        let order = report::OrderOfEquals::Registration;
        Ok(self.replay(history, order, &tried.stats, None, tried.out_of_memory))
    }

    fn replay(
        &self,
        history: &History<'_>,
        order_of_equals: report::OrderOfEquals,
        stats: &DeviceStats,
        comparison: Option<Comparison>,
        out_of_memory: Option<OutOfMemory>,
    ) -> Replay {
        let peak = |stat: &StatArray| stat.all.peak as u64;
        Replay {
            configuration: conf_text(&self.config),
            device_memory_bytes: self.memory,
            order_of_equals,
            peaks: Peaks {
                requested_bytes: peak(&stats.requested_bytes),
                allocated_bytes: peak(&stats.allocated_bytes),
                active_bytes: peak(&stats.active_bytes),
                reserved_bytes: peak(&stats.reserved_bytes),
            },
            comparison,
            out_of_memory,
            notes: self.notes_on(history),
            memory_summary: memory_summary(stats, history.initial.device as DeviceIndex, false),
        }
    }

    fn notes_on(&self, history: &History<'_>) -> Vec<String> {
        let mut notes = self.notes.clone();
        if history.lanes.all.iter().any(|lane| lane.is_private()) {
            notes.push(
                "The recording has private pools, of graphs or of `MemPool`. Each is replayed as a stream of its \
                 own; what it does is not compared."
                    .into(),
            );
        }
        if self.mode == Mode::WhatIf && !history.initial.starts_empty {
            notes.push(
                "What was live when recording began is allocated first, from an empty device: what had become \
                 fragmented until then is not."
                    .into(),
            );
        }
        notes
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Argument(reason) => f.write_str(reason),
            Self::Replay { file, error } => write!(f, "{file}: {error}"),
        }
    }
}
