//! The command: reads, works out, writes.

use std::io::Write;
use std::process::ExitCode;

use super::args::ReportArgs;
use super::data::{DeviceData, PageData};
use super::owners::Owners;
use super::page::page;
use super::picture::Picture;
use super::png::png;
use super::story::Story;
use super::svg::svg;
use crate::output::{self, write_file};
use crate::progress::Progress;
use crate::replay::{Failure, Mode, Recording, Terms, configuration, device_memory, recordings, replay_all};
use crate::snapshot::{InputError, Limits, Snapshot, Wanted, read_file, read_snapshot};

/// Writes what the arguments ask for.
pub(crate) fn run_report(args: &ReportArgs) -> ExitCode {
    let report = match Report::read(args) {
        Ok(report) => report,
        Err(why) => return output::bad_input(&why),
    };
    match report.write(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => output::failure(&why),
    }
}

struct Report {
    data: PageData,
    /// The story of the pictures, and their title.
    pictured: Option<(String, Story)>,
}

impl Report {
    fn read(args: &ReportArgs) -> Result<Self, Failure> {
        let given = args.conf.as_deref().map(configuration).transpose().map_err(Failure::Argument)?;
        let memory = device_memory(args.device_memory)?;
        let recorded = {
            let _reading = Progress::endless("Reading");
            read_file(&args.file, Limits::default(), Wanted::Stacks).map_err(Failure::Input)?
        };
        let snapshot = if given.is_none() && memory.is_none() {
            recorded
        } else {
            let terms = Terms { records: true, ..Terms::new(&recorded, given, memory, Mode::WhatIf) };
            what_if(args, &recorded, &terms)?
        };
        let owners = Owners::new(&snapshot.stacks);
        let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut report = Self { data: PageData { file: name.clone(), devices: Vec::new() }, pictured: None };
        for (recording, initial) in recordings(&args.file, &snapshot)? {
            let device = recording.device;
            let story = Story::new(&snapshot, &initial);
            let mut data = DeviceData::new(device, &story, &snapshot.stacks, &owners);
            data.about = about(&recording, args);
            data.notes = notes(&recording, &snapshot);
            report.data.devices.push(data);
            let is_wanted = match (args.device, &report.pictured) {
                (Some(wanted), _) => device == wanted,
                (None, Some((_, before))) => story.events > before.events,
                (None, None) => true,
            };
            if is_wanted {
                report.pictured = Some((format!("{name}, device {device}"), story));
            }
        }
        match args.device {
            Some(device) if report.pictured.is_none() => Err(Failure::Argument(format!(
                "--device: {} has nothing about device {device}",
                args.file.display()
            ))),
            _ => Ok(report),
        }
    }

    fn write(&self, args: &ReportArgs) -> Result<(), String> {
        if let Some(file) = &args.output {
            write_file(file, |out| out.write_all(page(&self.data).as_bytes()))?;
        }
        if args.svg.is_none() && args.png.is_none() {
            return Ok(());
        }
        let picture = match &self.pictured {
            Some((title, story)) => Picture::new(title, story),
            None => Picture::new(&self.data.file, &Story::default()),
        };
        if let Some(file) = &args.svg {
            write_file(file, |out| out.write_all(svg(&picture).as_bytes()))?;
        }
        if let Some(file) = &args.png {
            write_file(file, |out| out.write_all(&png(&picture)))?;
        }
        Ok(())
    }
}

/// The snapshot that the allocator gives for the requests of a recording under other terms.
fn what_if(args: &ReportArgs, recorded: &Snapshot, terms: &Terms) -> Result<Snapshot, Failure> {
    let whole = replay_all(&args.file, recorded, terms)?;
    let mut bytes = Vec::new();
    whole.write_pickle(&mut bytes).expect("a vector takes what is written to it");
    let snapshot = read_snapshot(&bytes, Limits::default(), Wanted::Stacks);
    snapshot.map_err(|reason| Failure::Input(InputError::new(&args.file, reason)))
}

/// A line under the name of the file.
fn about(recording: &Recording, args: &ReportArgs) -> String {
    let mut parts = vec![format!("Device {}", recording.device)];
    if args.conf.is_some() || args.device_memory.is_some() {
        parts.push("not as recorded, but its requests replayed".to_owned());
    }
    parts.extend(args.device_memory.map(|size| format!("{size} of memory")));
    if let Some(duration) = recording.duration_us.filter(|duration| *duration > 0) {
        parts.push(format!("{:.3} s", duration as f64 / 1e6));
    }
    parts.push(match recording.configuration.as_deref() {
        None => "configuration not recorded".to_owned(),
        Some("") => "PyTorch's default configuration".to_owned(),
        Some(text) => text.to_owned(),
    });
    parts.push(
        if recording.starts_empty {
            "recorded from an empty device"
        } else {
            "recorded in a running process"
        }
        .to_owned(),
    );
    parts.join(" · ")
}

/// How to read the page, and what the file leaves open.
fn notes(recording: &Recording, snapshot: &Snapshot) -> Vec<String> {
    let mut notes = vec![
        "A segment is memory that the driver gave in one piece. The allocator cuts blocks from it; a free block \
         is used again for a later request on the same stream, and a segment goes back when all of it is free."
            .to_owned(),
        "Events stand in their order. What an event changed shows from then on. The kind of use is read off the \
         stack: who called, not what the bytes mean."
            .to_owned(),
    ];
    if snapshot.stacks.len() == 0 {
        notes.push(
            "The file has no stacks: they are there when the history is recorded with context=\"all\" or \
             \"alloc\"."
                .to_owned(),
        );
    }
    notes.extend(recording.notes.iter().cloned());
    notes
}
