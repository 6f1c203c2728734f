//! [`Guide`]: what a plan implies, worked out once, so that serving it takes constant time.
//!
//! // Note [Whose place it was]
//! Whether a place is clear is not searched for. The requests of a plan come in order, so that the last request before
//! one that had a byte of its place is known beforehand. If each of these *predecessors* has been served where the plan
//! says, when it says, and is not held any more, then the place is clear: it was clear when they were served, and nothing
//! has been put there since. Requests as rectangles of time and addresses do not overlap, and "sees the other
//! across free time" is a planar relation between them: there are fewer than three predecessors to a request.

use std::collections::BTreeMap;

use super::grams::Grams;
use super::plan::Parts;

#[derive(Clone, Debug)]
pub(super) struct Guide {
    /// The predecessors of each request the first time through.
    pub(super) first: Lists,
    /// Those of a request that comes again, in a lap. One at or after the request itself is of the lap before.
    pub(super) again: Lists,
    pub(super) grams: Grams,
}

/// A list of requests for each request.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    pub(super) fn of(&self, at: u32) -> &[u32] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.items[start as usize..self.ends[at as usize] as usize]
    }

    fn push(&mut self, mut list: Vec<u32>) {
        list.sort_unstable();
        list.dedup();
        self.items.extend(list);
        self.ends.push(self.items.len() as u32);
    }
}

impl Guide {
    pub(super) fn new(parts: &Parts) -> Self {
        let mut owners = Owners::default();
        let mut first = Lists::default();
        let mut again = Lists::default();
        for (at, entry) in parts.entries.iter().enumerate() {
            first.push(owners.take(entry.offset, entry.offset + entry.size, at as u32));
        }
        // A plan that does not repeat can be told to begin again.
        let from = parts.repeats_from.unwrap_or(0) as usize;
        for (at, entry) in parts.entries.iter().enumerate() {
            let list = match at < from {
                true => Vec::new(),
                false => owners.take(entry.offset, entry.offset + entry.size, at as u32),
            };
            again.push(list);
        }
        let tokens = parts.entries.iter().map(|entry| (entry.size, entry.lane.into()));
        Self { first, again, grams: Grams::new(tokens) }
    }
}

/// Who had each byte last.
#[derive(Debug, Default)]
struct Owners(BTreeMap<u64, (u64, u32)>);

impl Owners {
    /// Gives the bytes from `start` to `end` to a request, and says who had them.
    fn take(&mut self, start: u64, end: u64, request: u32) -> Vec<u32> {
        let mut before = Vec::new();
        while let Some((&at, &(until, owner))) = self.0.range(..end).next_back() {
            if until <= start {
                break;
            }
            before.push(owner);
            self.0.remove(&at);
            if until > end {
                self.0.insert(end, (until, owner));
            }
            if at < start {
                self.0.insert(at, (start, owner));
                break;
            }
        }
        self.0.insert(start, (end, request));
        before
    }
}
