//! An [`Advice`] as a page to read.

use std::fmt::Write;

use super::advice::{Advice, DeviceAdvice};
use super::grid::Whose;
use super::trial::Trial;
use crate::prose::{counted, grouped, wrapped};
use crate::size::ByteSize;

/// The page.
pub(super) fn page(advice: &Advice) -> String {
    let mut page = String::new();
    if advice.devices.is_empty() {
        page += &format!("{}: nothing was recorded on any device\n", advice.file);
    }
    for (index, device) in advice.devices.iter().enumerate() {
        if index > 0 {
            page.push('\n');
        }
        section(&mut page, advice, device);
    }
    page
}

fn section(page: &mut String, advice: &Advice, device: &DeviceAdvice) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{}, device {}\n", advice.file, device.device);
    *page += &wrapped("  ", &verdict(advice, device));
    if let Some(line) = &device.environment {
        let _ = write!(page, "\n    {line}\n");
    }
    table(page, device);
    for (index, note) in device.notes.iter().enumerate() {
        if index == 0 {
            *page += "\nNotes\n";
        }
        *page += &wrapped("  - ", note);
    }
}

/// What to do, in a sentence or two.
fn verdict(advice: &Advice, device: &DeviceAdvice) -> String {
    let reserved = |trial: &Trial| ByteSize(trial.peaks.reserved_bytes).to_string();
    let memory = advice.device_memory_bytes.map(|bytes| ByteSize(bytes).to_string());
    let mut text = match (device.best(), device.better(), device.defaults(), &memory) {
        (None, _, _, memory) => format!(
            "Nothing that PyTorch can be set to fits{}.",
            memory.as_ref().map_or_else(String::new, |memory| format!(" in {memory}"))
        ),
        (Some(_), Some(better), Some(defaults), Some(memory)) if !defaults.fits() => {
            format!(
                "PyTorch's defaults do not fit in {memory}. This does, with at most {} reserved:",
                reserved(better)
            )
        }
        (Some(_), Some(better), Some(defaults), _) => format!(
            "Set this: at most {} are reserved, and {} with the defaults.",
            reserved(better),
            reserved(defaults)
        ),
        (Some(best), ..) => format!(
            "Leave PyTorch as it is: no setting does better than the defaults, with at most {} reserved.",
            reserved(best)
        ),
    };
    if let Some(ours) = device.ours() {
        let before = device.best().map_or_else(String::new, |best| format!(", and not {}", reserved(best)));
        let _ =
            write!(text, " This allocator's `{}` would need {}{before}.", ours.configuration, reserved(ours));
    }
    text
}

fn table(page: &mut String, device: &DeviceAdvice) {
    let name = |trial: &Trial| match (trial.configuration.as_str(), trial.whose) {
        ("", _) => "PyTorch's defaults".to_owned(),
        // It may come from the file, and hold what a terminal acts on.
        (text, Whose::Pytorch) => text.escape_debug().to_string(),
        (text, Whose::Ours) => format!("{text} (ours)"),
    };
    let wide = device.trials.iter().map(|trial| name(trial).chars().count()).max().unwrap_or(0).max(13);
    let live = ByteSize(device.peak_live_bytes);
    let _ = writeln!(
        page,
        "\n{} events; the program held at most {live}, in requests of whole 512 bytes\n",
        grouped(device.events)
    );
    let _ = writeln!(
        page,
        "  {:<wide$}  {:>13}  {:>13}  {:>7}  {:>12}  outcome",
        "configuration", "peak blocks", "peak reserved", "waste", "driver calls"
    );
    for trial in &device.trials {
        let waste = trial.waste.map_or_else(|| "-".to_owned(), |waste| format!("{:.1} %", 100.0 * waste));
        let outcome = match &trial.out_of_memory {
            None => "fits".to_owned(),
            Some(refused) => match refused.event {
                Some(event) => format!("out of memory at event {}", grouped(event)),
                None => "out of memory before the first event".to_owned(),
            },
        };
        let _ = writeln!(
            page,
            "  {:<wide$}  {:>13}  {:>13}  {waste:>7}  {:>12}  {outcome}",
            name(trial),
            ByteSize(trial.peaks.allocated_bytes).to_string(),
            ByteSize(trial.peaks.reserved_bytes).to_string(),
            grouped(trial.driver_calls),
        );
    }
    let out = device.trials.iter().filter(|trial| !trial.fits()).count();
    if out > 0 {
        let _ = writeln!(page, "\n  {} ran out of memory.", counted(out, "configuration"));
    }
}
