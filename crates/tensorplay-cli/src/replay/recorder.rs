//! [`Recorder`]: the allocator's own history of a replay, with the times and stacks of the recording, so that it can
//! be written as a snapshot and looked at like one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use c10_cuda::CachingAllocator;
use c10_cuda::alloc::{
    Context, ContextProvider, Contexts, Frame, GatheredContext, History, RecordContext, Snapshot,
};

use crate::snapshot::{Event, StackId, Stacks};

thread_local! {
    /// The time of the event that is carried out on this thread: a clock is a plain function.
    static TIME: Cell<u64> = const { Cell::new(0) };
    /// Its stack.
    static STACK: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Keeps what the allocator does.
pub(super) struct Recorder {
    /// By the number of the stack.
    contexts: Vec<Context>,
}

/// A stack of the file, whose frames are looked up when they are written.
#[derive(Debug)]
struct OfFile {
    stacks: Arc<Stacks>,
    id: StackId,
}

impl GatheredContext for OfFile {
    fn frames(&self) -> Vec<Frame> {
        let frames = self.stacks.frames(self.id);
        frames
            .map(|frame| Frame { filename: frame.filename.into(), name: frame.name.into(), line: frame.line })
            .collect()
    }
}

/// Gives the stack of the event that is carried out.
#[derive(Debug)]
struct OfEvent;

impl ContextProvider for OfEvent {
    fn gather(&self) -> Option<Context> {
        STACK.with_borrow(Clone::clone)
    }
}

impl Recorder {
    /// Begins.
    pub(super) fn start(allocator: &CachingAllocator, stacks: &Arc<Stacks>) -> Self {
        let context = |id| Context::new(OfFile { stacks: Arc::clone(stacks), id });
        let contexts = stacks.ids().map(context).collect();
        allocator.record_history(Some(History {
            max_entries: usize::MAX,
            clock: Some(|| TIME.get()),
            clear: true,
            contexts: Some(Contexts { level: RecordContext::All, provider: Arc::new(OfEvent) }),
            ..History::default()
        }));
        Self { contexts }
    }

    /// Says which event is carried out.
    pub(super) fn at(&self, event: &Event) {
        // Those of which the file tells no time keep that of the one before.
        TIME.set(event.time_us.unwrap_or(TIME.get()));
        STACK.set(event.stack.map(|stack| self.contexts[stack.index()].clone()));
    }

    /// All that was recorded, on the streams of the recording.
    pub(super) fn finish(self, allocator: &CachingAllocator, streams: &HashMap<u64, u64>) -> Snapshot {
        let mut snapshot = allocator.snapshot(true);
        allocator.record_history(None);
        TIME.set(0);
        STACK.set(None);
        let recorded = |raw: u64| streams.get(&raw).copied().unwrap_or(raw);
        for segment in &mut snapshot.segments {
            segment.stream.raw = recorded(segment.stream.raw);
        }
        for entry in snapshot.device_traces.iter_mut().flatten() {
            entry.stream.raw = recorded(entry.stream.raw);
        }
        snapshot
    }
}
