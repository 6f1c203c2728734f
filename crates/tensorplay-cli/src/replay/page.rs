//! A [`ReplayReport`] as a page to read, for someone who has not seen one before: first what came of it, then the
//! peaks, then the rest.

use std::fmt::Write;

use super::chart::Timeline;
use super::recording::Recording;
use super::report::{Comparison, DeviceReport, OrderOfEquals, OutOfMemory, PlanUse, Replay, ReplayReport};
use crate::prose::{counted, grouped, wrapped};
use crate::size::ByteSize;

/// The page.
pub(crate) fn page(report: &ReplayReport) -> String {
    let mut page = Page::default();
    if report.devices.is_empty() {
        page.line(&format!("{}: nothing was recorded on any device", report.file));
    }
    for (index, device) in report.devices.iter().enumerate() {
        if index > 0 {
            page.line("");
        }
        page.line(&format!("{}, device {}", report.file, device.recording.device));
        page.line("");
        page.verdict(device);
        page.memory(device);
        page.timeline(&device.replay.timeline);
        page.recording(&device.recording);
        page.replay(&device.replay);
        if let Some(plan) = &device.replay.plan {
            page.plan(plan);
        }
        page.notes(device.recording.notes.iter().chain(&device.replay.notes));
        page.line("");
        page.text += &device.replay.memory_summary;
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// A heading behind an empty line.
    fn heading(&mut self, heading: &str) {
        self.line("");
        self.line(heading);
    }

    fn field(&mut self, name: &str, value: &str) {
        self.line(&format!("  {name:<16} {value}"));
    }

    /// Prose of several lines; `first` stands before the first, and as much space before the others.
    fn prose(&mut self, first: &str, text: &str) {
        self.text += &wrapped(first, text);
    }

    /// What came of it, in one sentence or two.
    fn verdict(&mut self, device: &DeviceReport) {
        let replay = &device.replay;
        let text = match (&replay.comparison, &replay.out_of_memory) {
            (Some(comparison), _) => compared(comparison),
            (None, None) => {
                let memory = match replay.device_memory_bytes {
                    Some(bytes) => format!("Fits in {}", ByteSize(bytes)),
                    None => "Runs with unlimited memory".into(),
                };
                format!("{memory}; at most {} are reserved.", ByteSize(replay.peaks.reserved_bytes))
            }
            (None, Some(refused)) => out_of_memory(refused, replay, device.recording.events),
        };
        self.prose("  ", &text);
        if let Some(refused) = &replay.out_of_memory {
            self.line("");
            self.prose("  ", &refused.message);
        }
    }

    /// The peaks side by side.
    fn memory(&mut self, device: &DeviceReport) {
        let (recording, peaks) = (&device.recording, &device.replay.peaks);
        self.heading("Memory at its peak         recorded     replayed");
        let mut row = |name: &str, recorded: Option<u64>, replayed: u64, about: &str| {
            let recorded = recorded.map_or_else(String::new, |bytes| ByteSize(bytes).to_string());
            let replayed = ByteSize(replayed).to_string();
            self.line(&format!("  {name:<19} {recorded:>13} {replayed:>12}   {about}"));
        };
        let recorded = Some(recording.peak_requested_bytes);
        row("requested", recorded, peaks.requested_bytes, "what the program asked for");
        row("allocated", None, peaks.allocated_bytes, "its blocks, with sizes rounded up");
        row("active", None, peaks.active_bytes, "and blocks that waited for other streams");
        let recorded = Some(recording.peak_reserved_bytes);
        row("reserved", recorded, peaks.reserved_bytes, "what the driver had given");
        let about = format!("{:.1} % of it, reserved beyond the peak of allocated", 100.0 * peaks.waste());
        row("waste", None, peaks.waste_bytes(), &about);
    }

    /// Memory over the events, as a picture.
    fn timeline(&mut self, timeline: &Timeline) {
        let picture = timeline.picture();
        if !picture.is_empty() {
            self.heading("From the first event to the last: █ allocated, · reserved");
            picture.iter().for_each(|line| self.line(line));
        }
    }

    fn recording(&mut self, recording: &Recording) {
        self.heading("Recording");
        let mut events = format!(
            "{}: {} and {} of segments",
            counted(recording.events, "event"),
            counted(recording.allocations, "allocation"),
            counted(recording.segment_events, "change")
        );
        if recording.out_of_memory > 0 {
            let _ = write!(events, ", {} out of memory", grouped(recording.out_of_memory));
        }
        self.field("history", &events);
        if let Some(duration) = recording.duration_us {
            self.field("lasted", &format!("{:.3} s", duration as f64 / 1e6));
        }
        let start = if recording.starts_empty {
            "from an empty device".to_owned()
        } else {
            format!(
                "in a running process, with {} and {}",
                counted(recording.segments_at_start, "segment"),
                counted(recording.live_blocks_at_start, "live block")
            )
        };
        self.field("starts", &start);
        self.configuration(recording.configuration.as_deref());
    }

    fn replay(&mut self, replay: &Replay) {
        self.heading("Replay");
        self.configuration(Some(&replay.configuration));
        let memory = replay.device_memory_bytes.map(|bytes| ByteSize(bytes).to_string());
        self.field("device memory", memory.as_deref().unwrap_or("unlimited"));
        if let Some(Comparison { placements, segments, .. }) = &replay.comparison {
            let (of, open) = (placements.compared, placements.not_determined);
            self.agreement("placements", placements.as_recorded, of, open);
            self.agreement(
                "segment events",
                segments.as_recorded,
                segments.compared,
                segments.not_determined,
            );
        }
        let order = match replay.order_of_equals {
            OrderOfEquals::Registration => "oldest memory first, as PyTorch 2.15",
            OrderOfEquals::Address => "lowest address first, as PyTorch before 2.15",
            OrderOfEquals::Either => "oldest memory or lowest address first: both agree",
        };
        self.field("equal blocks", order);
    }

    fn plan(&mut self, plan: &PlanUse) {
        self.heading("Plan");
        let made = if plan.is_of_this_history { "these requests" } else { "other requests" };
        self.field("made from", &format!("{made}, {} high", ByteSize(plan.height_bytes)));
        self.field("peak live", &ByteSize(plan.peak_live_bytes).to_string());
        let reserved = ByteSize(plan.peak_reserved_bytes);
        self.field(
            "peak reserved",
            &format!("{reserved}, in whole pages; waste {:.2} %", 100.0 * plan.waste),
        );
        let requests = plan.planned + plan.elsewhere + plan.outside;
        let hits = format!("{} of {}", grouped(plan.planned), counted(requests, "request"));
        self.field("as planned", &hits);
        let deviations = format!(
            "{} elsewhere in the arena, {} outside it; lost and found again: {}",
            grouped(plan.elsewhere),
            grouped(plan.outside),
            grouped(plan.resynchronised)
        );
        self.field("deviations", &deviations);
    }

    fn configuration(&mut self, text: Option<&str>) {
        // It may come from the file, and hold what a terminal acts on.
        let text = text.map(|text| text.escape_debug().to_string());
        self.field(
            "configuration",
            match text.as_deref() {
                None => "not recorded",
                Some("") => "PyTorch's defaults",
                Some(text) => text,
            },
        );
    }

    fn agreement(&mut self, name: &str, as_recorded: u64, compared: u64, open: u64) {
        let mut text = match compared {
            0 => "none to compare".to_owned(),
            _ => format!("{} of {} as recorded", grouped(as_recorded), grouped(compared)),
        };
        if open > 0 {
            let _ = write!(text, "; {} that the file leaves open", grouped(open));
        }
        self.field(name, &text);
    }

    fn notes<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        for (index, note) in notes.enumerate() {
            if index == 0 {
                self.heading("Notes");
            }
            self.prose("  - ", note);
        }
    }
}

/// How a comparison came out.
fn compared(comparison: &Comparison) -> String {
    let Comparison { placements, segments, first_difference } = comparison;
    let both = |placements: u64, segments: u64| match segments {
        0 => counted(placements, "placement"),
        _ => format!("{} and {}", counted(placements, "placement"), counted(segments, "segment event")),
    };
    let open = match (placements.not_determined, segments.not_determined) {
        (0, 0) => String::new(),
        (placements, segments) => format!(" The file leaves {} open.", both(placements, segments)),
    };
    if let Some(difference) = first_difference {
        return format!(
            "Differs from the recording, first at event {}: {}. {} of {} placements and {} of {} segment events \
             are as recorded.{open}",
            grouped(difference.event),
            difference.what,
            grouped(placements.as_recorded),
            grouped(placements.compared),
            grouped(segments.as_recorded),
            grouped(segments.compared),
        );
    }
    if placements.compared + segments.compared == 0 {
        return format!("Nothing to compare: no decision in the file is determined.{open}");
    }
    let qualifier = if open.is_empty() { "" } else { ", as far as the file determines it" };
    let counts = both(placements.compared, segments.compared);
    format!("Reproduced{qualifier}: every one of {counts}, in order.{open}")
}

/// Where a what-if ended.
fn out_of_memory(refused: &OutOfMemory, replay: &Replay, events: usize) -> String {
    let size = ByteSize(refused.requested_bytes);
    let memory = match replay.device_memory_bytes {
        Some(bytes) => format!("Does not fit in {}", ByteSize(bytes)),
        None => "Does not fit".into(),
    };
    let place = match refused.event {
        Some(event) => format!("at event {} of {}", grouped(event), grouped(events)),
        None => "while what was live at the start is allocated".into(),
    };
    format!("{memory}: out of memory {place}, on a request for {size}.")
}
