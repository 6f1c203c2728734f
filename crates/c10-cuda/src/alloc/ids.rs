//! [`BlockId`] and [`PoolId`]: places in tables.

use std::num::NonZeroU32;

/// A block of a device: its slot, and which of the slot's successive blocks it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct BlockId {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

const _: () = assert!(size_of::<Option<BlockId>>() == 8);

/// A pool of a device. The pools of requests up to 1 MiB, and of larger ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PoolId {
    Small,
    Large,
}

impl PoolId {
    pub(crate) fn is_small(self) -> bool {
        self == Self::Small
    }
}
