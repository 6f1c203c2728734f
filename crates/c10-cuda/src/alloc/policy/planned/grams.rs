//! [`Grams`]: hashes of short runs of requests, by which a place in a history is recognised.

use super::fingerprint::Fingerprint;

/// How many requests a run has.
pub(super) const GRAM: usize = 8;

/// A request, as far as it counts: size, and stream or lane.
pub(super) type Token = (u64, u64);

/// The runs of a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Grams {
    /// The ends of runs by hash, and then in order.
    sorted: Vec<(u64, u32)>,
}

impl Grams {
    pub(super) fn new(tokens: impl Iterator<Item = Token>) -> Self {
        let tokens: Vec<_> = tokens.collect();
        let hashes = tokens.windows(GRAM).map(|run| hash(run.iter().copied()));
        let mut sorted: Vec<_> = hashes.zip(GRAM as u32..).collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// Where runs with that hash end, in order.
    pub(super) fn places(&self, hash: u64) -> &[(u64, u32)] {
        let first = self.sorted.partition_point(|run| run.0 < hash);
        let count = self.sorted[first..].partition_point(|run| run.0 == hash);
        &self.sorted[first..first + count]
    }

    /// Where runs with that hash end: the end that is nearest to `place`, of two the later.
    pub(super) fn nearest(&self, hash: u64, place: u32) -> Option<u32> {
        let after = self.sorted.partition_point(|run| *run < (hash, place));
        let is_such = |run: &&(u64, u32)| run.0 == hash;
        let later = self.sorted.get(after).filter(is_such);
        let earlier = after.checked_sub(1).and_then(|before| self.sorted.get(before)).filter(is_such);
        match (earlier, later) {
            (Some(&(_, earlier)), Some(&(_, later))) => {
                Some(if place - earlier < later - place { earlier } else { later })
            }
            (found, None) | (None, found) => found.map(|&(_, end)| end),
        }
    }
}

/// The hash of a run.
pub(super) fn hash(run: impl Iterator<Item = Token>) -> u64 {
    let mut print = Fingerprint::default();
    for (size, stream) in run {
        print.add(&size.to_le_bytes());
        print.add(&stream.to_le_bytes());
    }
    print.value()
}
