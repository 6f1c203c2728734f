//! A [`ReplayReport`] as a page to read, for someone who has not seen one before.

use std::fmt::Write;

use super::recording::Recording;
use super::report::{DeviceReport, OrderOfEquals, Outcome, ReplayReport};
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
        page.recording(&device.recording);
        page.memory(device);
        if let Some(outcome) = &device.outcome {
            page.outcome(outcome);
        }
        page.notes(&device.recording.notes);
        if let Some(outcome) = &device.outcome {
            page.line("");
            page.text += &outcome.memory_summary;
        }
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

    fn recording(&mut self, recording: &Recording) {
        self.heading("Recording");
        let mut events = format!(
            "{}: {} and {}",
            counted(recording.events, "event"),
            counted(recording.allocations, "allocation"),
            counted(recording.segment_events, "change")
        );
        events += " of segments";
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
        // It comes from the file, and may hold what a terminal acts on.
        let configuration = recording.configuration.as_deref().map(|text| text.escape_debug().to_string());
        self.field(
            "configuration",
            match configuration.as_deref() {
                None => "not recorded",
                Some("") => "PyTorch's defaults",
                Some(configuration) => configuration,
            },
        );
    }

    /// The peaks side by side.
    fn memory(&mut self, device: &DeviceReport) {
        let recording = &device.recording;
        let peaks = device.outcome.as_ref().map(|outcome| outcome.peaks);
        let replayed = if peaks.is_some() { "replayed" } else { "" };
        self.heading(&format!("Memory at its peak         recorded     {replayed}"));
        let mut row = |name: &str, recorded: Option<u64>, replayed: Option<u64>, about: &str| {
            let cell =
                |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| ByteSize(bytes).to_string());
            self.line(&format!("  {name:<19} {:>13} {:>12}   {about}", cell(recorded), cell(replayed)));
        };
        let recorded = Some(recording.peak_requested_bytes);
        row("requested", recorded, peaks.map(|peaks| peaks.requested_bytes), "what the program asked for");
        if let Some(peaks) = peaks {
            row("allocated", None, Some(peaks.allocated_bytes), "its blocks, with sizes rounded up");
            row("active", None, Some(peaks.active_bytes), "and blocks that waited for other streams");
        }
        let recorded = Some(recording.peak_reserved_bytes);
        row("reserved", recorded, peaks.map(|peaks| peaks.reserved_bytes), "what the driver had given");
        if let Some(peaks) = peaks {
            let waste = peaks.reserved_bytes.saturating_sub(peaks.allocated_bytes);
            let about =
                format!("{:.1} % of it, reserved beyond the peak of allocated", 100.0 * peaks.waste());
            row("waste", None, Some(waste), &about);
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.heading("Replay");
        let configuration = match outcome.configuration.as_str() {
            "" => "PyTorch's defaults",
            configuration => configuration,
        };
        self.field("configuration", configuration);
        let memory = match outcome.device_memory_bytes {
            Some(bytes) => ByteSize(bytes).to_string(),
            None => "unlimited memory".into(),
        };
        match &outcome.out_of_memory {
            None => self.field("fits", &format!("yes, in {memory}")),
            Some(error) => {
                let event = grouped(error.event);
                self.field("fits", &format!("no: out of memory at event {event}, with {memory}"));
                self.field("", &error.message);
            }
        }
        if outcome.compared {
            self.comparison(outcome);
        }
    }

    fn comparison(&mut self, outcome: &Outcome) {
        let placements = outcome.placements;
        let mut text =
            format!("{} of {} as recorded", grouped(placements.as_recorded), grouped(placements.compared));
        if placements.not_determined > 0 {
            let _ = write!(text, "; {} that the file leaves open", grouped(placements.not_determined));
        }
        self.field("placements", &text);
        let segments = outcome.segments;
        let mut text = format!("{} of {} as recorded", grouped(segments.agreed), grouped(segments.compared));
        if segments.not_determined > 0 {
            let _ = write!(text, "; {} that the file leaves open", grouped(segments.not_determined));
        }
        self.field("segments", &text);
        self.field(
            "equal blocks",
            match outcome.order_of_equals {
                OrderOfEquals::Registration => "oldest memory first, as PyTorch 2.15",
                OrderOfEquals::Address => "lowest address first, as PyTorch before 2.15",
                OrderOfEquals::Either => "oldest memory or lowest address first: both agree",
            },
        );
        if let Some(difference) = &outcome.first_difference {
            self.field("first difference", difference);
        }
    }

    fn notes(&mut self, notes: &[String]) {
        if !notes.is_empty() {
            self.heading("Notes");
        }
        for note in notes {
            let mut line = String::from("  -");
            for word in note.split_whitespace() {
                if line.len() + word.len() >= 90 {
                    self.line(&line);
                    line = String::from("   ");
                }
                line.push(' ');
                line += word;
            }
            self.line(&line);
        }
    }
}

/// `1 event`, `23,105 events`.
fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number with commas between its thousands.
fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
