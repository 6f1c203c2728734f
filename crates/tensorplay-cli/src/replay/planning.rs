//! `tensorplay plan`: the requests of a snapshot, packed offline and written to a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use c10_core::DeviceIndex;
use c10_cuda::plan::{Limits, Plan, Recording, Shape};
use c10_cuda::{Config, Error};
use clap::Args;

use super::given;
use super::growable::Growable;
use super::history::History;
use super::lane::Lanes;
use super::player::Stage;
use super::recording;
use super::run::{Failure, check};
use super::settings::recorded_config;
use super::what_if::requests;
use crate::output;
use crate::progress::{Bar, Progress};
use crate::prose::{counted, grouped};
use crate::size::ByteSize;
use crate::snapshot::{
    self, AllocatorSettings, InitialState, InputError, Snapshot, Wanted, initial_state, read_file,
};

/// Plans where the requests of a snapshot go, so that they need as little memory as can be found.
///
/// The sizes and lifetimes of all requests are packed into one range of memory. The plan is a file of text, which
/// `tensorplay replay --plan` and the allocator's `Config::placement` serve. Printed is how far it is from a bound
/// that no plan can be below: the most that is live at one time.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The snapshot.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the plan is written.
    #[arg(short, long, value_name = "PLAN")]
    output: PathBuf,
    /// How long to search for a better packing, in seconds. Most of that is not needed.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
    /// How many steps to search for a better packing: a million takes about a tenth of a second. Where the time does
    /// not end the search first, equal files give equal plans.
    #[arg(long, value_name = "STEPS", default_value_t = Limits::default().steps)]
    steps: u64,
    /// Plans the first part of the history alone, as of a program that will do more of the same.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    first: Option<u8>,
    /// The device whose history is planned; the only one with a history unless given.
    #[arg(long, value_name = "DEVICE")]
    device: Option<usize>,
}

/// Runs the command.
pub(crate) fn run_plan(args: &PlanArgs) -> ExitCode {
    match plan(args) {
        Ok(page) => output::print(&page),
        Err(failure) => output::bad_input(&failure),
    }
}

fn plan(args: &PlanArgs) -> Result<String, Failure> {
    let file = &args.file;
    let input = |reason| Failure::Input(InputError::new(file, reason));
    let snapshot = {
        let _reading = Progress::endless("Reading");
        read_file(file, snapshot::Limits::default(), Wanted::Memory).map_err(Failure::Input)?
    };
    let device = choose_device(&snapshot, args)?;
    let initial = initial_state(&snapshot, device).map_err(input)?;
    check(&recording::Recording::new(&snapshot, &initial)).map_err(input)?;
    let failure = |error: Error| Failure::Replay { file: file.display().to_string(), device, error };
    let recording = recorded(&snapshot, &initial, args.first.unwrap_or(100), &Bar::Own).map_err(failure)?;
    let shape = if args.first.is_some() { Shape::Repeating } else { Shape::Whole };
    let begun = Instant::now();
    let plan = pack(&recording, shape, args.steps, Duration::from_secs(args.time_limit)).map_err(failure)?;
    let took = begun.elapsed();
    plan.save(&args.output).map_err(|error| Failure::Argument(format!("--output: {error}")))?;
    Ok(page(file, device, &plan, took, &args.output))
}

/// The device that is named, or the only one with something to plan.
fn choose_device(snapshot: &Snapshot, args: &PlanArgs) -> Result<usize, Failure> {
    let has_history = |device: &usize| {
        !snapshot.trace(*device).is_empty() || snapshot.segments_of(*device).next().is_some()
    };
    let devices: Vec<_> = (0..snapshot.device_count()).filter(has_history).collect();
    let named = |device: &usize| args.device.is_none_or(|named| named == *device);
    match devices.iter().copied().filter(named).collect::<Vec<_>>()[..] {
        [device] => Ok(device),
        [] => Err(Failure::Argument(match args.device {
            Some(device) => format!("--device: {} has nothing about device {device}", args.file.display()),
            None => format!("{} has nothing about any device", args.file.display()),
        })),
        _ => {
            let devices: Vec<_> = devices.iter().map(ToString::to_string).collect();
            let (file, devices) = (args.file.display(), devices.join(", "));
            Err(Failure::Argument(format!("--device: {file} has histories of devices {devices}; name one")))
        }
    }
}

/// What the first part of the history asks for.
fn recorded(snapshot: &Snapshot, initial: &InitialState, percent: u8, bar: &Bar) -> Result<Recording, Error> {
    let lanes = Lanes::new(snapshot, initial);
    let growable = Growable::new(snapshot, initial, &lanes);
    let default = AllocatorSettings::default();
    let settings = snapshot.allocator_settings.as_ref().unwrap_or(&default);
    let history = History {
        trace: snapshot.trace(initial.device),
        initial,
        lanes: &lanes,
        settings,
        growable: &growable,
    };
    let stage = Stage {
        // Nothing is refused, and nothing is asked of the driver that takes long.
        config: Config {
            per_process_memory_fraction: 1.0,
            expandable_segments: false,
            ..recorded_config(snapshot).config
        },
        device: initial.device as DeviceIndex,
        memory: given::LARGEST_DEVICE,
        lanes: &lanes.all,
        keeps_changes: false,
        records: None,
    };
    let events = (history.trace.len() as u128 * u128::from(percent) / 100) as usize;
    requests(&history, &stage, events, &bar.of("Replaying", events))
}

/// The plan of a whole history after a search of so many steps, whatever time they take.
pub(crate) fn plan_of(
    snapshot: &Snapshot,
    initial: &InitialState,
    steps: u64,
    bar: &Bar,
) -> Result<Plan, Error> {
    let recording = recorded(snapshot, initial, 100, bar)?;
    Plan::make(&recording, Shape::Whole, &Limits { steps, ..Limits::default() }, &mut |_| true)
}

fn pack(recording: &Recording, shape: Shape, steps: u64, time: Duration) -> Result<Plan, Error> {
    let limits = Limits { steps, ..Limits::default() };
    let progress = Progress::new("Packing", limits.steps as usize);
    let begun = Instant::now();
    Plan::make(recording, shape, &limits, &mut |now| {
        let above = percent_above(now.height, now.bound);
        progress.set(now.steps, format!("Packing, {above:.2} % above the bound"));
        begun.elapsed() < time
    })
}

fn page(file: &Path, device: usize, plan: &Plan, took: Duration, output: &Path) -> String {
    let mut page = format!("{}, device {device}\n\n", file.display());
    let mut field = |name: &str, value: &dyn fmt::Display| page += &format!("  {name:<16} {value}\n");
    let (height, bound) = (plan.height(), plan.bound());
    field("requests", &format_args!("{} on {}", grouped(plan.len()), counted(plan.lanes(), "stream")));
    if let Some(period) = plan.period() {
        field("repeats", &format_args!("after {}", counted(period, "request")));
    }
    field("lower bound", &format_args!("{}, the most that is live at once", ByteSize(bound)));
    let above = percent_above(height, bound);
    field("plan", &format_args!("{}, {above:.2} % above the bound", ByteSize(height)));
    let pages = height.next_multiple_of(2 << 20);
    let waste = 100.0 * (pages - bound) as f64 / pages.max(1) as f64;
    field("in whole pages", &format_args!("{}, of which {waste:.2} % are waste", ByteSize(pages)));
    field("packed in", &format_args!("{:.1} s", took.as_secs_f64()));
    field("source", &format_args!("{:016x}", plan.source()));
    field("written to", &output.display());
    page
}

/// How much larger a height is than its bound, in percent.
fn percent_above(height: u64, bound: u64) -> f64 {
    if bound == 0 { 0.0 } else { 100.0 * height.saturating_sub(bound) as f64 / bound as f64 }
}
