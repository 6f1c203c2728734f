//! The classes of sizes, each with homes of its own, and how these grow. Blocks of one class live about as long as
//! each other, so that their memory becomes free in large pieces. The numbers come from trying many on recorded
//! histories of training: little waste at few calls.

use crate::alloc::size::MIB;

/// How a class is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// The largest request, in bytes.
    largest: u64,
    pub(super) fit: Fit,
    /// The fewest pages that a home begins with.
    first_growth: u64,
    /// The fewest that it grows by.
    least_growth: u64,
}

/// Which of the free blocks that are large enough is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The smallest.
    Smallest,
    /// One of just the size, or the lowest.
    Lowest,
    /// One of just the size, or that which leaves least free in handles that are in part used. See Note [Remnants].
    LeastRemnant,
}

/// By size. The first is of the small pools, the others of the large ones.
pub(super) const CLASSES: [Class; 4] = [
    Class { largest: MIB, fit: Fit::Smallest, first_growth: 1, least_growth: 1 },
    Class { largest: 3 * MIB, fit: Fit::Lowest, first_growth: 4, least_growth: 2 },
    Class { largest: 12 * MIB, fit: Fit::LeastRemnant, first_growth: 3, least_growth: 3 },
    Class { largest: u64::MAX, fit: Fit::Smallest, first_growth: 2, least_growth: 2 },
];

/// The smallest request, in bytes, that is put together from pieces.
pub(super) const LEAST_STITCHED: u64 = 6 * MIB;

/// How many pages a window has to spare: it has its calls too.
const WORTH: u64 = 2;

/// The class of a request's size.
pub(super) fn of(size: u64) -> usize {
    CLASSES.iter().position(|class| size <= class.largest).expect("the last class has no bound")
}

/// How many pages a home grows by: `plain` if the block is to end up at the home's end, `missing` if it is to be put
/// together with what is free.
pub(super) fn growth(class: usize, is_new: bool, plain: u64, missing: u64) -> u64 {
    let needed = if plain <= missing + WORTH { plain } else { missing };
    let Class { first_growth, least_growth, .. } = CLASSES[class];
    needed.max(if is_new { first_growth } else { least_growth })
}

/// The most pages of a handle, where a home grows by so many. Large handles save calls; small ones are sooner free as a
/// whole. See Note [Remnants].
pub(super) fn handle_pages(growth: u64) -> u64 {
    growth.div_ceil(3).max(4)
}
