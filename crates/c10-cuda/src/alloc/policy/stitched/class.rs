//! The classes of sizes, each with homes of its own, and how these grow. Blocks of one class live about as long as
//! each other, so that their memory becomes free in large pieces. The numbers come from trying many on recorded
//! histories of training: little waste at few calls.

use super::PAGE;
use crate::alloc::size::MIB;

/// How a class is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// The largest request, in bytes.
    largest: u64,
    /// Whether the smallest block that fits is taken; else one of just the size, or the lowest.
    pub(super) best_fit: bool,
    /// The fewest pages that it grows by.
    least_growth: u64,
}

/// By size. The first is of the small pools, the others of the large ones.
pub(super) const CLASSES: [Class; 4] = [
    Class { largest: MIB, best_fit: true, least_growth: 1 },
    Class { largest: 3 * MIB, best_fit: false, least_growth: 2 },
    Class { largest: 12 * MIB, best_fit: true, least_growth: 4 },
    Class { largest: u64::MAX, best_fit: true, least_growth: 4 },
];

/// The smallest request, in bytes, that is put together from pieces.
pub(super) const LEAST_STITCHED: u64 = 2 * MIB;

/// The class of a request's size.
pub(super) fn of(size: u64) -> usize {
    CLASSES.iter().position(|class| size <= class.largest).expect("the last class has no bound")
}

/// How many pages a home grows by: `plain` if the block is to end up at the home's end, `missing` if it is to be put
/// together with what is free.
pub(super) fn growth(class: usize, plain: u64, missing: u64) -> u64 {
    // A window has its calls too, so it has to spare some pages.
    let worth = (plain / 6).clamp(2, 4);
    let needed = if plain <= missing + worth { plain } else { missing };
    needed.max(CLASSES[class].least_growth)
}

/// The most pages of a handle, of `growth` pages for a request, where `reserved` bytes are held already. Handles are
/// few where memory is large, as a handle's share of it is small all the same.
pub(super) fn handle_pages(size: u64, growth: u64, reserved: u64) -> u64 {
    let fixed = if size > 8 * MIB { 4 } else { 8 };
    (reserved / 256 / PAGE).max(growth.div_ceil(3)).max(fixed)
}
