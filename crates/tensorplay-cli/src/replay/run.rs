//! A snapshot, replayed and reported.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use c10_cuda::alloc::memory_summary;
use c10_cuda::{Config, Error, OrderOfEquals};

use super::args::{Format, ReplayArgs};
use super::history::{Followed, History, Terms, follow};
use super::page;
use super::progress::Progress;
use super::recording::Recording;
use super::report::{self, DeviceReport, Outcome, Peaks, ReplayReport};
use super::settings::recorded_config;
use crate::output;
use crate::snapshot::{AllocatorSettings, InputError, Limits, initial_state, read_file};

/// More than any history can ask for: 64 TiB.
const UNLIMITED: u64 = 1 << 46;

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
    if report.is_as_wanted() { printed } else { ExitCode::FAILURE }
}

/// Why nothing could be replayed.
enum Failure {
    Input(InputError),
    Configuration(Error),
    Replay { file: String, error: Error },
}

fn replay(file: &Path, args: &ReplayArgs) -> Result<ReplayReport, Failure> {
    let given = args.conf.as_deref().map(Config::parse).transpose().map_err(Failure::Configuration)?;
    let snapshot = read_file(file, Limits::default()).map_err(Failure::Input)?;
    let recorded = recorded_config(&snapshot);
    let compare = given.is_none() && args.device_memory.is_none();
    let what = Replay {
        text: args.conf.clone().or_else(|| snapshot.allocator_settings.as_ref().map(|s| s.conf.clone())),
        terms: Terms {
            config: given.unwrap_or_else(|| recorded.config.clone()),
            device_memory: args.device_memory.map_or(UNLIMITED, |size| size.0),
            compare,
        },
        limited: args.device_memory.is_some(),
    };
    let mut devices = Vec::new();
    for device in 0..snapshot.device_count() {
        let initial = initial_state(&snapshot, device)
            .map_err(|reason| Failure::Input(InputError::new(file, reason)))?;
        let mut recording = Recording::new(&snapshot, &initial);
        if recording.is_empty() {
            continue;
        }
        if compare {
            recording.notes.extend(recorded.notes.iter().cloned());
        }
        let default = AllocatorSettings::default();
        let settings = snapshot.allocator_settings.as_ref().unwrap_or(&default);
        let history = History { trace: snapshot.trace(device), initial: &initial, settings };
        let outcome = what
            .device(history)
            .map_err(|error| Failure::Replay { file: file.display().to_string(), error })?;
        devices.push(DeviceReport { recording, outcome: Some(outcome) });
    }
    Ok(ReplayReport { file: file.display().to_string(), devices })
}

/// What is run on each device.
struct Replay {
    /// The configuration as a text, for the report.
    text: Option<String>,
    terms: Terms,
    /// Whether the device's memory was given.
    limited: bool,
}

impl Replay {
    fn device(&self, history: History<'_>) -> Result<Outcome, Error> {
        let (order, followed) = if self.terms.compare {
            self.best_order(history)?
        } else {
            let progress = Progress::new("Replaying", history.trace.len());
            (report::OrderOfEquals::Registration, follow(history, &self.terms, &progress)?)
        };
        Ok(self.outcome(order, followed))
    }

    /// The order of equals that agrees with the recording on the most, and its replay.
    fn best_order(&self, history: History<'_>) -> Result<(report::OrderOfEquals, Followed), Error> {
        let replay = |order_of_equals| {
            let mut terms = self.terms.clone();
            terms.config.order_of_equals = order_of_equals;
            follow(history, &terms, &Progress::new("Replaying", history.trace.len()))
        };
        let (address, registration) = (replay(OrderOfEquals::Address)?, replay(OrderOfEquals::Registration)?);
        Ok(match address.agreement().cmp(&registration.agreement()) {
            Ordering::Equal => (report::OrderOfEquals::Either, address),
            Ordering::Greater => (report::OrderOfEquals::Address, address),
            Ordering::Less => (report::OrderOfEquals::Registration, registration),
        })
    }

    fn outcome(&self, order: report::OrderOfEquals, followed: Followed) -> Outcome {
        let stats = &followed.stats;
        let peak = |stat: &c10_core::stat::StatArray| stat.all.peak as u64;
        Outcome {
            configuration: self.text.clone().unwrap_or_default(),
            device_memory_bytes: self.limited.then_some(self.terms.device_memory),
            compared: self.terms.compare,
            order_of_equals: order,
            placements: followed.placements,
            segments: followed.segments,
            first_difference: followed.first_difference,
            peaks: Peaks {
                requested_bytes: peak(&stats.requested_bytes),
                allocated_bytes: peak(&stats.allocated_bytes),
                active_bytes: peak(&stats.active_bytes),
                reserved_bytes: peak(&stats.reserved_bytes),
            },
            out_of_memory: followed.out_of_memory,
            memory_summary: memory_summary(stats, 0, false),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Configuration(error) => write!(f, "--conf: {error}"),
            Self::Replay { file, error } => write!(f, "{file}: {error}"),
        }
    }
}
