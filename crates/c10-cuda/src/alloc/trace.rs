//! [`TraceEntry`]: one thing that happened on a device, and what is to be recorded
//! (`torch.cuda.memory._record_memory_history`).

use std::cell::RefCell;
use std::fmt;

use super::context::{Context, Contexts};
use super::mempool_id::MempoolId;
use crate::driver::StreamHandle;
use crate::sync::Arc;

/// What happened (`TraceEntry::Action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceAction {
    /// A block was handed out.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// No stream uses it any more.
    FreeCompleted,
    /// The driver gave a segment.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Memory was mapped into an expandable segment.
    SegmentMap,
    /// Memory was unmapped from an expandable segment.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// Out of memory; the address is the driver's free bytes.
    Oom,
    /// A remark of the program; it stands in the metadata.
    Annotate,
}

impl TraceAction {
    /// PyTorch's word: `alloc`, `free_requested`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
        }
    }

    /// Whether it is about memory that comes from the driver or goes back to it.
    pub const fn is_of_segments(self) -> bool {
        matches!(self, Self::SegmentAlloc | Self::SegmentFree | Self::SegmentMap | Self::SegmentUnmap)
    }
}

impl fmt::Display for TraceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that happened on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What.
    pub action: TraceAction,
    /// The address it concerns; for [`Oom`](TraceAction::Oom) the driver's free bytes.
    pub address: u64,
    /// `alloc` and both frees: what the program asked for. Segments and pages: their whole size. `oom`: the rounded
    /// size. `snapshot`: all active bytes.
    pub size: u64,
    /// The stream of the block or the request.
    pub stream: StreamHandle,
    /// The private pool that it is about; the [default](MempoolId::DEFAULT) for the device's own.
    pub pool: MempoolId,
    /// What the clock of [`History`] said; 0 without one.
    pub time_us: u64,
    /// Where the program was, if [`History::contexts`] asks for it.
    pub context: Option<Context>,
    /// What the thread was compiling or running that is compiled ([`CompileContext`]).
    pub compile_context: Option<Arc<str>>,
    /// What the program had set ([`set_user_metadata`]), or the text of an
    /// [annotation](TraceAction::Annotate).
    ///
    /// [`set_user_metadata`]: crate::CachingAllocator::set_user_metadata
    pub user_metadata: Option<Arc<str>>,
}

/// What to record.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How many entries to keep, at least 1. The oldest go first.
    pub max_entries: usize,
    /// Actions that are left out.
    pub skip_actions: Vec<TraceAction>,
    /// Gives the time of entries, in microseconds. Called under the device's lock: it must not use the
    /// allocator, or it waits for itself for ever. Where it panics the time is 0.
    pub clock: Option<fn() -> u64>,
    /// Whether what was recorded before is forgotten.
    pub clear: bool,
    /// Who says where the program is, and for which calls; nobody unless given.
    pub contexts: Option<Contexts>,
}

/// Is told of every entry when it is made, whether it is recorded or left out (`AllocatorTraceTracker`). Called
/// with no lock held, when the call that made the entry is through; what it does itself it is told of too.
/// Entries of two threads may come in another order than they were made. In a deleter it must not unwind: a
/// panic is swallowed.
pub type TraceTracker = Arc<dyn Fn(&TraceEntry) + Send + Sync>;

thread_local! {
    /// What this thread is compiling, the innermost last.
    static COMPILING: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// Names what this thread compiles, or runs that was compiled, until it is dropped (`pushCompileContext`).
#[derive(Debug)]
#[must_use = "the context ends when this is dropped"]
pub struct CompileContext {
    depth: usize,
    /// Of this thread alone.
    _here: std::marker::PhantomData<*const ()>,
}

impl CompileContext {
    /// Enters a context; entries of this thread name the innermost.
    pub fn enter(name: &str) -> Self {
        let depth = COMPILING.with_borrow_mut(|all| {
            all.push(name.into());
            all.len() - 1
        });
        Self { depth, _here: std::marker::PhantomData }
    }

    /// The innermost of this thread.
    pub(crate) fn current() -> Option<Arc<str>> {
        COMPILING.try_with(|all| all.borrow().last().cloned()).ok().flatten()
    }
}

impl Drop for CompileContext {
    /// Ends the context, and those within it that are still there.
    fn drop(&mut self) {
        let _ = COMPILING.try_with(|all| all.borrow_mut().truncate(self.depth));
    }
}
