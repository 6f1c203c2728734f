//! The command: reads, tries, advises.

use std::process::ExitCode;

use super::advice::{Advice, DeviceAdvice};
use super::args::AdviseArgs;
use super::grid::candidates;
use super::page::page;
use super::trial::Trials;
use crate::output;
use crate::progress::Progress;
use crate::replay::{Failure, Format, device_memory, recordings};
use crate::snapshot::{Action, InitialState, Limits, Snapshot, Wanted, read_file};

/// Prints the advice.
pub(crate) fn run_advise(args: &AdviseArgs) -> ExitCode {
    let advice = match advise(args) {
        Ok(advice) => advice,
        Err(failure) => return output::bad_input(&failure),
    };
    let printed = match args.format {
        Format::Text => output::print(&page(&advice)),
        Format::Json => {
            let mut json =
                serde_json::to_string_pretty(&advice).expect("numbers and strings have a JSON form");
            json.push('\n');
            output::print(&json)
        }
    };
    if advice.as_wanted { printed } else { ExitCode::FAILURE }
}

fn advise(args: &AdviseArgs) -> Result<Advice, Failure> {
    let memory = device_memory(args.device_memory)?;
    // What is no configuration is refused before a long file is read.
    candidates(&args.conf, None, true).map_err(Failure::Argument)?;
    let snapshot = {
        let _reading = Progress::endless("Reading");
        read_file(&args.file, Limits::default(), Wanted::Memory).map_err(Failure::Input)?
    };
    let recorded = snapshot.allocator_settings.as_ref().map(|settings| settings.conf.as_str());
    let candidates = candidates(&args.conf, recorded, memory.is_some()).map_err(Failure::Argument)?;
    let found = recordings(&args.file, &snapshot)?;
    let (recordings, histories): (Vec<_>, Vec<_>) = found
        .into_iter()
        .map(|(recording, initial)| {
            let live = peak_live(&snapshot, &initial);
            (recording, (initial, live))
        })
        .unzip();
    let trials = Trials { file: &args.file, snapshot: &snapshot, memory }.run(&histories, &candidates)?;
    let devices: Vec<_> = recordings
        .into_iter()
        .zip(&histories)
        .zip(trials)
        .map(|((recording, (_, live)), trials)| {
            DeviceAdvice::new(recording.device, recording.events, *live, trials, recording.notes)
        })
        .collect();
    let as_wanted = devices.iter().all(|device| device.trials.iter().any(|trial| trial.fits()));
    let file = args.file.display().to_string();
    Ok(Advice { file, device_memory_bytes: memory, as_wanted, devices })
}

/// The largest sum of what the program held, each request rounded up to 512 bytes.
fn peak_live(snapshot: &Snapshot, initial: &InitialState) -> u64 {
    let rounded = |bytes: u64| bytes.checked_next_multiple_of(512).unwrap_or(bytes);
    let mut now: u64 = initial.live().map(|block| rounded(block.requested_size)).sum();
    let mut peak = now;
    for event in snapshot.trace(initial.device) {
        match event.action {
            Action::Alloc => now = now.saturating_add(rounded(event.size)),
            Action::FreeCompleted => now = now.saturating_sub(rounded(event.size)),
            _ => {}
        }
        peak = peak.max(now);
    }
    peak
}
