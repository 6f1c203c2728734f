//! [`BlockId`], [`PoolId`], [`ExpandableId`] and [`WindowId`]: places in tables.

use std::num::NonZeroU32;

/// A block of a device: its slot, and which of the slot's successive blocks it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct BlockId {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

const _: () = assert!(size_of::<Option<BlockId>>() == 8);

/// A pool of a device: whose it is, and which of its owner's two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct PoolId {
    /// Its place in the table of owners; 0 is the device's own.
    pub(crate) owner: u32,
    /// Whether it serves requests up to 1 MiB, or larger ones.
    pub(crate) is_small: bool,
}

impl PoolId {
    /// The device's pool of requests up to 1 MiB.
    pub(crate) const SMALL: Self = Self { owner: 0, is_small: true };
    /// The device's pool of larger requests.
    pub(crate) const LARGE: Self = Self { owner: 0, is_small: false };
}

/// A growable segment of a device: its place in their table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ExpandableId(pub(crate) u32);

/// A window of a device: the how-manieth it is of all that were made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct WindowId(pub(crate) NonZeroU32);
