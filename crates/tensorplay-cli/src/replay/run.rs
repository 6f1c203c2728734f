//! A snapshot, replayed and reported.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use c10_cuda::driver::sim::MAX_DEVICES;
use c10_cuda::plan::Plan;
use c10_cuda::{Error, Placement, alloc};

use super::args::{Format, ReplayArgs};
use super::recording::Recording;
use super::report::{DeviceReport, Mode, ReplayReport};
use super::terms::Terms;
use super::{given, page};
use crate::output;
use crate::progress::{Bar, Progress};
use crate::size::ByteSize;
use crate::snapshot::{
    InitialState, InputError, Limits, ReadError, Snapshot, Wanted, initial_state, read_file,
};

/// Reads the file, replays every device that it has something about, and reports.
pub(super) fn snapshot(file: &Path, args: &ReplayArgs) -> ExitCode {
    let Outcome { report, recorded } = match replay(file, args) {
        Ok(outcome) => outcome,
        Err(failure) => return output::bad_input(&failure),
    };
    if let Err(why) = write(&recorded, args) {
        return output::failure(&why);
    }
    let printed = match args.format {
        Format::Text => output::print(&page::page(&report)),
        Format::Json => output::print(&report.to_json()),
    };
    if report.as_wanted { printed } else { ExitCode::FAILURE }
}

/// What came of all devices.
struct Outcome {
    report: ReplayReport,
    /// The allocator's own history, if it was wanted.
    recorded: alloc::Snapshot,
}

/// Why nothing could be replayed.
#[derive(Debug)]
pub(crate) enum Failure {
    Input(InputError),
    Argument(String),
    Replay { file: String, device: usize, error: Error },
}

fn replay(file: &Path, args: &ReplayArgs) -> Result<Outcome, Failure> {
    let given = args.conf.as_deref().map(given::configuration).transpose().map_err(Failure::Argument)?;
    let memory = device_memory(args.device_memory)?;
    let plan = args.plan.as_deref().map(Plan::load).transpose();
    let plan = plan.map_err(|error| Failure::Argument(format!("--plan: {error}")))?;
    let records = args.snapshot.is_some() || args.trace.is_some();
    let mut watch = Watch::new(args.timing);
    let snapshot = {
        let _reading = Progress::endless("Reading");
        let wanted = if records { Wanted::Stacks } else { Wanted::Memory };
        read_file(file, Limits::default(), wanted).map_err(Failure::Input)?
    };
    watch.say("reading", snapshot.device_traces.iter().map(Vec::len).sum());
    let is_as_recorded = given.is_none() && memory.is_none() && plan.is_none();
    let mode = if is_as_recorded { Mode::Comparison } else { Mode::WhatIf };
    let mut terms = Terms { records, ..Terms::new(&snapshot, given, memory, mode) };
    if let Some(plan) = plan {
        terms.config.placement = Placement::Planned(Arc::new(plan));
    }
    let mut devices = Vec::new();
    let mut recorded = nothing(&terms);
    for (recording, initial) in recordings(file, &snapshot)? {
        let replayed = terms.replay(&snapshot, &initial, &Bar::Own);
        let replayed = replayed.map_err(|error| Failure::replay(file, recording.device, error))?;
        watch.say("replaying", recording.events);
        append(&mut recorded, recording.device, replayed.recorded);
        devices.push(DeviceReport { recording, replay: replayed.replay });
    }
    Ok(Outcome { report: ReplayReport::new(file.display().to_string(), mode, devices), recorded })
}

/// The allocator's own history of all devices, on terms that want it.
pub(crate) fn replay_all(
    file: &Path,
    snapshot: &Snapshot,
    terms: &Terms,
) -> Result<alloc::Snapshot, Failure> {
    let mut all = nothing(terms);
    for (recording, initial) in recordings(file, snapshot)? {
        let replayed = terms.replay(snapshot, &initial, &Bar::Own);
        let replayed = replayed.map_err(|error| Failure::replay(file, recording.device, error))?;
        append(&mut all, recording.device, replayed.recorded);
    }
    Ok(all)
}

fn nothing(terms: &Terms) -> alloc::Snapshot {
    alloc::Snapshot { segments: Vec::new(), device_traces: Vec::new(), config: terms.config.clone() }
}

/// Adds the part of a device, whose machine has the devices before it too.
fn append(all: &mut alloc::Snapshot, device: usize, part: Option<alloc::Snapshot>) {
    let Some(mut part) = part else { return };
    all.segments.append(&mut part.segments);
    all.device_traces.resize(device, Vec::new());
    all.device_traces.push(part.device_traces.swap_remove(device));
}

/// The memory of `--device-memory`, if it can be simulated and holds something.
pub(crate) fn device_memory(size: Option<ByteSize>) -> Result<Option<u64>, Failure> {
    let memory = size.map(given::device_memory).transpose().map_err(Failure::Argument)?;
    if memory == Some(0) {
        return Err(Failure::Argument("--device-memory: a device of 0 bytes holds nothing".into()));
    }
    Ok(memory)
}

/// The devices that a file has something about, each with the state in which its history began.
pub(crate) fn recordings(
    file: &Path,
    snapshot: &Snapshot,
) -> Result<Vec<(Recording, InitialState)>, Failure> {
    let input = |reason| Failure::Input(InputError::new(file, reason));
    let mut all = Vec::new();
    for device in 0..snapshot.device_count() {
        let initial = initial_state(snapshot, device).map_err(input)?;
        let recording = Recording::new(snapshot, &initial);
        if !recording.is_empty() {
            check(&recording).map_err(input)?;
            all.push((recording, initial));
        }
    }
    Ok(all)
}

fn write(recorded: &alloc::Snapshot, args: &ReplayArgs) -> Result<(), String> {
    if let Some(file) = &args.snapshot {
        output::write_file(file, |out| recorded.write_pickle(out))?;
    }
    if let Some(file) = &args.trace {
        output::write_file(file, |out| recorded.write_chrome_trace(out))?;
    }
    Ok(())
}

/// Says how long things took, where that is wanted.
struct Watch(Option<Instant>);

impl Watch {
    fn new(is_wanted: bool) -> Self {
        Self(is_wanted.then(Instant::now))
    }

    /// Says what was done since the last time, on so many events.
    fn say(&mut self, what: &str, events: usize) {
        if let Some(since) = &mut self.0 {
            let seconds = since.elapsed().as_secs_f64();
            let pace = events as f64 / seconds.max(1e-9) / 1e6;
            output::remark(&format_args!(
                "{what}: {seconds:.3} s for {events} events, {pace:.2} million a second"
            ));
            *since = Instant::now();
        }
    }
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

impl Failure {
    pub(crate) fn replay(file: &Path, device: usize, error: Error) -> Self {
        Self::Replay { file: file.display().to_string(), device, error }
    }
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
