//! [`Block`]: a range of one segment that is handed out, waits for streams, or is free.

use std::mem::offset_of;

use super::block_table::{NOWHERE, Place};
use super::ids::{ExpandableId, PoolId, WindowId};
use super::uses::Uses;

/// A range of device memory. Its neighbours in the segment are linked by slot, [`NOWHERE`] at the ends: the table
/// knows their ids.
///
/// // Note [Two lines of a block]
/// Whoever looks for a block, cuts it and joins it with its neighbours goes over many blocks and reads little of each.
/// So that is on one line of the processor's cache, and what is asked of a block that is handed out or comes back
/// is on another.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Its first address, and its length in bytes, a multiple of 512.
    pub(crate) ptr: u64,
    pub(crate) size: u64,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// When its segment came from the driver, among all segments.
    pub(crate) registration: u64,
    /// Other streams that use it, since it was handed out, on its device and on others.
    pub(crate) stream_uses: Uses,
    /// Where it is in its table, and whether it is in one.
    pub(super) place: Place,
    pub(super) is_live: bool,
    /// Whether the program holds it.
    pub(crate) allocated: bool,
    /// Whether there is memory behind its addresses.
    pub(crate) mapped: bool,

    /// What the program asked for; 0 once it is free.
    pub(crate) requested: u64,
    /// The stream it was allocated on: the driver's value.
    pub(crate) stream: u64,
    /// How many searches the pool had seen when the block became free.
    pub(crate) gc_count_base: u64,
    pub(crate) pool: PoolId,
    /// Its ticket, where it is a place of a plan.
    pub(crate) placed: Option<u32>,
    /// The growable segment it is a part of, if it is of one.
    pub(crate) expandable: Option<ExpandableId>,
    /// The window that it is in, or that its memory is lent to.
    pub(crate) window: Option<WindowId>,
}

const _: () = assert!(offset_of!(Block, requested) == 64 && size_of::<Block>() == 128);

impl Block {
    /// A free block that is all of a segment which cannot grow.
    pub(crate) fn new(ptr: u64, size: u64, stream: u64, registration: u64, pool: PoolId) -> Self {
        Self {
            ptr,
            size,
            requested: 0,
            stream,
            registration,
            gc_count_base: 0,
            prev: NOWHERE,
            next: NOWHERE,
            stream_uses: Uses::default(),
            place: Place::default(),
            is_live: false,
            pool,
            allocated: false,
            mapped: true,
            placed: None,
            expandable: None,
            window: None,
        }
    }

    /// Whether its segment holds other blocks too.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.prev | self.next != NOWHERE
    }

    /// Whether its segment begins with it.
    pub(crate) fn is_head(&self) -> bool {
        self.prev == NOWHERE
    }

    /// Whether nobody holds it and no stream is waited for. Where it is mapped too it can be handed out.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.allocated & self.stream_uses.are_over()
    }

    /// Whether it is free and there is memory behind it: it stands in a free set.
    #[inline]
    pub(crate) fn is_cached(&self) -> bool {
        self.is_free() & self.mapped
    }

    /// Whether nothing but its own segment and the program has to do with it.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.stream_uses.are_over() && self.placed.is_none() && self.window.is_none()
    }

    /// The expandable segment that it is a part of; asked only of such blocks.
    pub(crate) fn of_expandable(&self) -> ExpandableId {
        self.expandable.expect("only blocks of expandable segments grow and shrink")
    }

    /// Whether its memory is a part of a window's block, which stands for it.
    pub(crate) fn is_lent(&self) -> bool {
        self.window.is_some() && self.expandable.is_some()
    }

    /// Whether it is in a window, over memory of others.
    pub(crate) fn is_in_window(&self) -> bool {
        self.window.is_some() && self.expandable.is_none()
    }

    /// The address after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.ptr + self.size
    }
}
