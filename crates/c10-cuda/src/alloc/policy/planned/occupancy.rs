//! [`Occupancy`]: what is held of an arena, by address.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Occupancy(BTreeMap<u64, u64>);

impl Occupancy {
    /// Notes that a clear range is held.
    pub(super) fn insert(&mut self, range: &Range<u64>) {
        debug_assert!(self.is_clear(range), "{range:?} is held already");
        self.0.insert(range.start, range.end);
    }

    /// Notes that a range is not held any more.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        let end = self.0.remove(&range.start);
        debug_assert_eq!(end, Some(range.end), "{range:?} is held");
    }

    /// Whether nothing of a range is held.
    pub(super) fn is_clear(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_none_or(|(_, end)| *end <= range.start)
    }

    /// A place for `size` bytes inside `within`: the upper end of the smallest clear range that holds them; of equals
    /// the lowest. There it leaves the places of larger requests, which stand lower in a plan, most often alone.
    pub(super) fn tightest_gap(&self, within: &Range<u64>, size: u64) -> Option<u64> {
        let mut best: Option<(u64, u64)> = None;
        let mut bottom = within.start;
        let held = self.0.range(within.clone()).map(|(start, end)| (*start, *end));
        for (start, end) in held.chain([(within.end, within.end)]) {
            let gap = start - bottom;
            if gap >= size && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, start - size));
            }
            bottom = end;
        }
        best.map(|(_, place)| place)
    }
}
