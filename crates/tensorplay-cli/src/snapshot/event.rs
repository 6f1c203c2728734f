//! [`Event`]: one entry of a device's history (`TraceEntry`).

use super::segment::PoolId;
use super::stacks::StackId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A block was handed out.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// The block became free, at once or when other streams had done with it.
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
    /// An out-of-memory error was returned.
    Oom,
    /// A remark of the program.
    Annotate,
}

impl Action {
    /// The action of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "alloc" => Self::Alloc,
            "free_requested" => Self::FreeRequested,
            "free_completed" => Self::FreeCompleted,
            "segment_alloc" => Self::SegmentAlloc,
            "segment_free" => Self::SegmentFree,
            "segment_map" => Self::SegmentMap,
            "segment_unmap" => Self::SegmentUnmap,
            "snapshot" => Self::Snapshot,
            "oom" => Self::Oom,
            "annotate" | "user_defined" => Self::Annotate,
            _ => return None,
        })
    }

    /// Whether an expandable segment grew or shrank.
    pub(crate) fn is_of_maps(self) -> bool {
        matches!(self, Self::SegmentMap | Self::SegmentUnmap)
    }

    /// Whether the event is about the block or segment at its address.
    pub(crate) fn has_address(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Oom | Self::Annotate)
    }
}

/// One entry of a device's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What happened.
    pub(crate) action: Action,
    /// The block's or segment's address. For [`Action::Oom`], the bytes that were free on the device.
    pub(crate) address: u64,
    /// Bytes: what the program asked for, unrounded, for blocks; the whole range for segments.
    pub(crate) size: u64,
    /// The stream.
    pub(crate) stream: u64,
    /// When, in microseconds since 1970; files from before 2024 do not say.
    pub(crate) time_us: Option<u64>,
    /// The pool; most files do not say.
    pub(crate) pool_id: Option<PoolId>,
    /// Where the program was, if the file says so and it is wanted.
    pub(crate) stack: Option<StackId>,
}
