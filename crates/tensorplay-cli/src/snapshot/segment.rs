//! [`Segment`] and [`Block`]: the allocator's memory as a snapshot shows it.

use super::stacks::StackId;

/// Which pool a segment belongs to, `(0, 0)` for the default pools (`MempoolId_t`).
pub(crate) type PoolId = (u64, u64);

/// The size of a segment of the small pool (`kSmallBuffer`), in bytes.
pub(crate) const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

/// Memory that the allocator holds from the driver: one `cudaMalloc`, or one contiguous mapped range of an
/// expandable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The device.
    pub(crate) device: usize,
    /// The first byte.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) total_size: u64,
    /// The stream that its blocks are handed out on.
    pub(crate) stream: u64,
    /// Whether it serves requests up to 1 MiB.
    pub(crate) is_small: bool,
    /// Its pool.
    pub(crate) pool_id: PoolId,
    /// Whether it is a mapped range of an expandable segment.
    pub(crate) is_expandable: bool,
    /// Its blocks, in address order, without overlap.
    pub(crate) blocks: Vec<Block>,
}

impl Segment {
    /// One past the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.total_size
    }
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first byte.
    pub(crate) address: u64,
    /// Bytes, rounded as the allocator rounds.
    pub(crate) size: u64,
    /// Bytes that the program asked for; 0 in a free block.
    pub(crate) requested_size: u64,
    /// Who has it.
    pub(crate) state: BlockState,
    /// Where the program was when it asked for it, if the file says so and it is wanted.
    pub(crate) stack: Option<StackId>,
}

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// The program (`active_allocated`).
    Allocated,
    /// The program gave it back, and other streams still use it (`active_pending_free`).
    PendingFree,
    /// Nobody (`inactive`).
    Inactive,
}
