//! [`SizeBins`]: an ordered set of free blocks whose usual operations take constant time.
//!
//! Blocks stand in *bins* by size: one for each multiple of 512 bytes up to 64 KiB, then 64 for each power of two.
//! Two levels of bits say which bins hold anything, so that the next larger block is found with no search through
//! empty ones. Within a bin blocks are sorted; a bin is a short vector, and a tree once it is long.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::ids::BlockId;
use super::size::MIN_BLOCK_SIZE;

#[cfg(test)]
mod tests;

/// The order of blocks: by size, then as the pool says, then by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) size: u64,
    pub(crate) tie: u64,
    pub(crate) ptr: u64,
    pub(crate) id: BlockId,
}

/// Bins of exactly one size.
const EXACT: usize = 128;
/// Bins for each power of two after those.
const STEPS: usize = 64;
/// A block is below 2^61 bytes, and so below 2^52 units.
const BINS: usize = EXACT + (52 - EXACT.ilog2() as usize) * STEPS;
const WORDS: usize = BINS.div_ceil(64);
/// A bin with more blocks than this is a tree.
const LONG: usize = 24;

const _: () = assert!(WORDS <= 64, "one word says which words hold anything");

/// Free blocks in order.
#[derive(Debug)]
pub(crate) struct SizeBins {
    /// Which words of `words` are not 0.
    summary: u64,
    /// Which bins hold anything.
    words: [u64; WORDS],
    /// For each bin, where in `bins` it is, plus one; 0 until it first holds anything.
    places: Box<[u16; BINS]>,
    bins: Vec<Bin>,
    len: usize,
}

#[derive(Debug)]
enum Bin {
    Short(Vec<Key>),
    Long(BTreeSet<Key>),
}

impl SizeBins {
    pub(crate) fn new() -> Self {
        Self { summary: 0, words: [0; WORDS], places: Box::new([0; BINS]), bins: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a key, and says whether it was not there.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key) -> bool {
        let at = bin_of(key.size);
        if self.places[at] == 0 {
            self.bins.push(Bin::Short(Vec::new()));
            self.places[at] = u16::try_from(self.bins.len()).expect("there are fewer bins than 2^16");
        }
        let new = self.bins[usize::from(self.places[at]) - 1].insert(key);
        self.words[at / 64] |= 1 << (at % 64);
        self.summary |= 1 << (at / 64);
        self.len += usize::from(new);
        new
    }

    /// Takes a key out, and says whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let at = bin_of(key.size);
        let Some(place) = usize::from(self.places[at]).checked_sub(1) else { return false };
        let bin = &mut self.bins[place];
        let found = bin.remove(key);
        if found {
            self.len -= 1;
            if bin.is_empty() {
                self.words[at / 64] &= !(1 << (at % 64));
                if self.words[at / 64] == 0 {
                    self.summary &= !(1 << (at / 64));
                }
            }
        }
        found
    }

    /// The first key of at least `size` bytes.
    pub(crate) fn first_from(&self, size: u64) -> Option<Key> {
        let at = bin_of(size);
        if let Some(key) = self.bin(at).and_then(|bin| bin.first_from(size)) {
            return Some(key);
        }
        self.bin(self.next_bin(at + 1)?)?.first()
    }

    /// The key that follows one that is there.
    pub(crate) fn first_after(&self, key: &Key) -> Option<Key> {
        let at = bin_of(key.size);
        if let Some(next) = self.bin(at).and_then(|bin| bin.first_after(key)) {
            return Some(next);
        }
        self.bin(self.next_bin(at + 1)?)?.first()
    }

    /// Takes the first key of at least `size` bytes out, if its size is one that `fits`.
    #[inline]
    pub(crate) fn take_first_from(&mut self, size: u64, fits: impl Fn(u64) -> bool) -> Option<Key> {
        let key = self.first_from(size).filter(|key| fits(key.size))?;
        self.remove(&key);
        Some(key)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.bin(bin_of(key.size)).is_some_and(|bin| bin.contains(key))
    }

    /// All keys, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Key> {
        (0..BINS).filter_map(|at| self.bin(at)).flat_map(Bin::iter)
    }

    fn bin(&self, at: usize) -> Option<&Bin> {
        Some(&self.bins[usize::from(self.places[at]).checked_sub(1)?])
    }

    /// The first bin from `at` on that holds anything.
    fn next_bin(&self, at: usize) -> Option<usize> {
        if at >= BINS {
            return None;
        }
        let word = at / 64;
        let rest = self.words[word] >> (at % 64);
        if rest != 0 {
            return Some(at + rest.trailing_zeros() as usize);
        }
        let later = self.summary & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

/// The bin of a size. It never falls as the size grows.
#[inline]
fn bin_of(size: u64) -> usize {
    let units = (size / MIN_BLOCK_SIZE) as usize;
    if units < EXACT {
        return units;
    }
    let power = units.ilog2() as usize;
    let step = (units >> (power - STEPS.ilog2() as usize)) & (STEPS - 1);
    (EXACT + (power - EXACT.ilog2() as usize) * STEPS + step).min(BINS - 1)
}

/// How many keys come before a place. Bins are so short that going through them beats halving.
#[inline]
fn place(keys: &[Key], is_before: impl Fn(&Key) -> bool) -> usize {
    keys.iter().position(|key| !is_before(key)).unwrap_or(keys.len())
}

impl Bin {
    fn insert(&mut self, key: Key) -> bool {
        match self {
            Self::Short(keys) => {
                let at = place(keys, |other| *other < key);
                if keys.get(at) == Some(&key) {
                    return false;
                }
                keys.insert(at, key);
                if keys.len() > LONG {
                    *self = Self::Long(keys.iter().copied().collect());
                }
                true
            }
            Self::Long(keys) => keys.insert(key),
        }
    }

    fn remove(&mut self, key: &Key) -> bool {
        match self {
            Self::Short(keys) => {
                let at = place(keys, |other| other < key);
                let found = keys.get(at) == Some(key);
                if found {
                    keys.remove(at);
                }
                found
            }
            Self::Long(keys) => {
                let found = keys.remove(key);
                // Well below the other limit, so that a bin does not go to and fro.
                if keys.len() <= LONG / 4 {
                    *self = Self::Short(keys.iter().copied().collect());
                }
                found
            }
        }
    }

    fn first_from(&self, size: u64) -> Option<Key> {
        match self {
            Self::Short(keys) => keys.get(place(keys, |key| key.size < size)).copied(),
            Self::Long(keys) => keys.range(Key::before(size)..).next().copied(),
        }
    }

    fn first_after(&self, key: &Key) -> Option<Key> {
        match self {
            Self::Short(keys) => keys.get(place(keys, |other| other <= key)).copied(),
            Self::Long(keys) => keys.range((Bound::Excluded(key), Bound::Unbounded)).next().copied(),
        }
    }

    fn first(&self) -> Option<Key> {
        match self {
            Self::Short(keys) => keys.first().copied(),
            Self::Long(keys) => keys.first().copied(),
        }
    }

    fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Short(keys) => keys.binary_search(key).is_ok(),
            Self::Long(keys) => keys.contains(key),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Short(keys) => keys.is_empty(),
            Self::Long(keys) => keys.is_empty(),
        }
    }

    fn iter(&self) -> Box<dyn DoubleEndedIterator<Item = Key> + '_> {
        match self {
            Self::Short(keys) => Box::new(keys.iter().copied()),
            Self::Long(keys) => Box::new(keys.iter().copied()),
        }
    }
}

impl Key {
    /// Comes before every block of `size` bytes.
    fn before(size: u64) -> Self {
        let id = BlockId { index: 0, generation: std::num::NonZeroU32::MIN };
        Self { size, tie: 0, ptr: 0, id }
    }
}
