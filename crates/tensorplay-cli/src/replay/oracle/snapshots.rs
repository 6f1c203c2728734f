//! Snapshots and the history.

use std::fmt::Write;

use c10_cuda::alloc::{BlockState, History, MempoolId, SegmentInfo, TraceAction, TraceEntry};
use c10_cuda::driver::StreamHandle;

use super::Stop;
use super::answer::Answer;
use super::entries::Kept;
use super::machine::Machine;
use super::places::{in_pool, on_device, pool_name};
use crate::replay::ops::PoolName;

/// All that a history can leave out.
const ACTIONS: [TraceAction; 10] = [
    TraceAction::Alloc,
    TraceAction::FreeRequested,
    TraceAction::FreeCompleted,
    TraceAction::SegmentAlloc,
    TraceAction::SegmentFree,
    TraceAction::SegmentMap,
    TraceAction::SegmentUnmap,
    TraceAction::Snapshot,
    TraceAction::Oom,
    TraceAction::Annotate,
];

impl Machine {
    pub(super) fn history(&mut self, entries: usize, skip: &[&str]) -> Result<Answer, Stop> {
        self.allocator.supports("recordHistory")?;
        self.has_history = entries != 0;
        let skipped = |action: &TraceAction| skip.contains(&action.name());
        let skip_actions = ACTIONS.into_iter().filter(skipped).collect();
        let history = History { max_entries: entries, skip_actions, clear: true, ..History::default() };
        let history = self.has_history.then_some(history);
        if self.with_entries {
            self.kept = history.map(|history| Kept::new(history, self.streams.len()));
        } else {
            self.allocator.record_history(history);
        }
        Ok(Answer::DONE)
    }

    pub(super) fn snapshot(&mut self, pool: Option<PoolName>) -> Result<Answer, Stop> {
        self.allocator.supports("snapshot")?;
        let pool = pool.map_or(MempoolId::DEFAULT, MempoolId::from);
        let mut snapshot = self.allocator.snapshot_of(pool, self.has_history && !self.with_entries);
        if let Some(kept) = &self.kept {
            snapshot.device_traces = kept.entries();
        }
        let mut text = String::new();
        for segment in &snapshot.segments {
            self.write_segment(&mut text, segment);
        }
        for entry in snapshot.device_traces.iter().flatten() {
            self.write_entry(&mut text, entry);
        }
        Ok(Answer::Echo(text))
    }

    fn write_segment(&self, text: &mut String, segment: &SegmentInfo) {
        let class = if segment.is_large { "large" } else { "small" };
        let growing = if segment.is_expandable { " expandable" } else { "" };
        let _ = write!(
            text,
            "\nsegment {} device {} pool {} stream {} {class}{growing} total {} allocated {} active {} requested {}",
            self.places.place(segment.address.0),
            segment.stream.device,
            pool_name(segment.pool),
            self.stream_name(segment.stream),
            segment.total_size,
            segment.allocated_size,
            segment.active_size,
            segment.requested_size,
        );
        let mut at = segment.address.0;
        for block in &segment.blocks {
            let _ = write!(text, "\nblock {} size {}", self.places.place(at), block.size);
            if block.state != BlockState::Inactive {
                let _ = write!(text, " requested {}", block.requested_size);
            }
            let _ = write!(text, " {}", block.state.name());
            at += block.size;
        }
    }

    fn write_entry(&self, text: &mut String, entry: &TraceEntry) {
        // PyTorch says of a snapshot that it is of device 0.
        let device = if entry.action == TraceAction::Snapshot { 0 } else { entry.stream.device };
        let (stream, device) = (self.stream_name(entry.stream), on_device(device));
        let pool = in_pool(entry.pool);
        let _ = write!(text, "\nentry {} {} stream {stream}{pool}{device}", entry.action, entry.size);
    }

    /// The number of a stream that the trace has named.
    fn stream_name(&self, stream: StreamHandle) -> String {
        let named = &self.streams[usize::from(stream.device)];
        named.iter().position(|(_, handle)| *handle == stream).map_or("?".into(), |number| number.to_string())
    }
}
