//! A history as trace events, for `chrome://tracing` and <https://ui.perfetto.dev>: blocks as spans on their
//! streams, what the driver gave and took as instants, and counters of what was live and reserved.
//!
//! Blocks of a stream live side by side, so that each is an asynchronous span (`b` and `e`), named by where it was
//! allocated. A block from before the history has no span; the counters begin with what the segments and blocks of
//! the snapshot leave for then, so that they are right for it too.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::alloc::{Snapshot, TraceAction, TraceEntry};

impl Snapshot {
    /// Writes what was recorded as JSON in Chrome's trace event format. Times are those of the entries; where the
    /// history has no clock, an entry's place counts as its microsecond.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_chrome_trace(&self, mut out: impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut separator = "\n";
        for (device, trace) in self.device_traces.iter().enumerate() {
            let mut shown = Shown { device, out: &mut out, separator, spans: HashMap::new(), next_span: 0 };
            shown.names(trace)?;
            shown.entries(trace, Levels::at_start(self, device, trace))?;
            separator = shown.separator;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}

/// What is live and what is reserved, in bytes.
#[derive(Clone, Copy, Debug)]
struct Levels {
    live: i128,
    reserved: i128,
}

impl Levels {
    /// What there was before the first entry: what there is, less what the entries added.
    fn at_start(snapshot: &Snapshot, device: usize, trace: &[TraceEntry]) -> Self {
        let segments = snapshot.segments.iter().filter(|s| usize::from(s.stream.device) == device);
        let mut levels = Self { live: 0, reserved: 0 };
        for segment in segments {
            levels.live += i128::from(segment.requested_size);
            levels.reserved += i128::from(segment.total_size);
        }
        for entry in trace {
            let (live, reserved) = change(entry);
            levels.live -= live;
            levels.reserved -= reserved;
        }
        // Actions that were left out are missing from the sum.
        Self { live: levels.live.max(0), reserved: levels.reserved.max(0) }
    }
}

/// By how much an entry changes what is live and what is reserved.
fn change(entry: &TraceEntry) -> (i128, i128) {
    let size = i128::from(entry.size);
    match entry.action {
        TraceAction::Alloc => (size, 0),
        TraceAction::FreeCompleted => (-size, 0),
        TraceAction::SegmentAlloc | TraceAction::SegmentMap => (0, size),
        TraceAction::SegmentFree | TraceAction::SegmentUnmap => (0, -size),
        _ => (0, 0),
    }
}

/// One device's part of the file.
struct Shown<'a, W> {
    device: usize,
    out: &'a mut W,
    /// What stands before the next event.
    separator: &'static str,
    /// The open span of each address, and its name.
    spans: HashMap<u64, (u64, String)>,
    next_span: u64,
}

impl<W: Write> Shown<'_, W> {
    fn names(&mut self, trace: &[TraceEntry]) -> io::Result<()> {
        let device = self.device;
        self.event("M", 0, 0, "process_name", &format!("\"args\":{{\"name\":\"cuda:{device}\"}}"))?;
        let streams: BTreeSet<u64> = trace.iter().map(|entry| entry.stream.raw).collect();
        for stream in streams {
            self.event("M", stream, 0, "thread_name", &format!("\"args\":{{\"name\":\"stream {stream}\"}}"))?;
        }
        Ok(())
    }

    fn entries(&mut self, trace: &[TraceEntry], mut levels: Levels) -> io::Result<()> {
        let has_clock = trace.iter().any(|entry| entry.time_us != 0);
        for (index, entry) in trace.iter().enumerate() {
            let time = if has_clock { entry.time_us } else { index as u64 };
            self.entry(entry, time)?;
            let (live, reserved) = change(entry);
            if (live, reserved) != (0, 0) {
                levels.live = (levels.live + live).max(0);
                levels.reserved = (levels.reserved + reserved).max(0);
                let Levels { live, reserved } = levels;
                let args = format!("\"args\":{{\"live\":{live},\"reserved\":{reserved}}}");
                self.event("C", 0, time, "bytes", &args)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &TraceEntry, time: u64) -> io::Result<()> {
        let stream = entry.stream.raw;
        match entry.action {
            TraceAction::Alloc => {
                let span = self.next_span;
                self.next_span += 1;
                let frames = entry.context.as_ref().map(|context| context.frames()).unwrap_or_default();
                let name = frames.first().map_or("block", |frame| frame.name.as_str());
                self.spans.insert(entry.address, (span, name.to_owned()));
                let mut args = format!(
                    "\"cat\":\"memory\",\"id\":{span},\"args\":{{\"addr\":\"{:#x}\",\"bytes\":{}",
                    entry.address, entry.size
                );
                if !frames.is_empty() {
                    let lines = frames.iter().map(|f| format!("{}:{} {}", f.filename, f.line, f.name));
                    let stack = lines.collect::<Vec<_>>().join("\n");
                    let _ = write!(args, ",\"stack\":{}", quoted(&stack));
                }
                args.push('}');
                self.event("b", stream, time, name, &args)
            }
            TraceAction::FreeCompleted => match self.spans.remove(&entry.address) {
                Some((span, name)) => {
                    let args = format!("\"cat\":\"memory\",\"id\":{span}");
                    self.event("e", stream, time, &name, &args)
                }
                None => Ok(()),
            },
            TraceAction::FreeRequested => Ok(()),
            TraceAction::Annotate => {
                let text = entry.user_metadata.as_deref().unwrap_or("annotate");
                self.event("i", stream, time, text, "\"s\":\"p\"")
            }
            TraceAction::SegmentAlloc
            | TraceAction::SegmentFree
            | TraceAction::SegmentMap
            | TraceAction::SegmentUnmap
            | TraceAction::Snapshot
            | TraceAction::Oom => {
                let args = format!("\"s\":\"p\",\"args\":{{\"bytes\":{}}}", entry.size);
                self.event("i", stream, time, entry.action.name(), &args)
            }
        }
    }

    /// One event; `rest` are its members behind the common ones.
    fn event(&mut self, phase: &str, stream: u64, time: u64, name: &str, rest: &str) -> io::Result<()> {
        let separator = std::mem::replace(&mut self.separator, ",\n");
        let (device, name) = (self.device, quoted(name));
        write!(
            self.out,
            "{separator}{{\"ph\":\"{phase}\",\"pid\":{device},\"tid\":{stream},\"ts\":{time},\"name\":{name},{rest}}}"
        )
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if u32::from(c) < 0x20 => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
