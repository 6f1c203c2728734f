//! [`Segment`]: memory that is pinned in one piece in advance, and cut off from the front.

/// Parts are whole pages.
const PAGE: u64 = 4096;

/// The segment of an allocator.
#[derive(Debug, Default)]
pub(super) enum Segment {
    /// Nobody has asked yet.
    #[default]
    Unasked,
    /// The driver had none, or none is wanted.
    Missing,
    /// It is there.
    Reserved {
        /// Where it begins.
        base: usize,
        /// Its length.
        bytes: u64,
        /// How much of it is cut off.
        used: u64,
    },
}

impl Segment {
    /// Cuts off a part, and gives its address, if so much is left.
    pub(super) fn cut(&mut self, size: u64) -> Option<usize> {
        let Self::Reserved { base, bytes, used } = self else { return None };
        let end = used.checked_add(size.checked_next_multiple_of(PAGE)?).filter(|end| end <= bytes)?;
        let at = *base + *used as usize;
        *used = end;
        Some(at)
    }
}
