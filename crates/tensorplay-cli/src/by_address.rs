//! [`ByAddress`]: values in the order of their addresses, with their neighbours at hand.
//!
//! - A1: addresses rise from entry to entry, within a run and from run to run.
//! - A2: no run is empty or longer than [`RUN`]; `firsts` holds the first address of each.
//!
//! What goes through a history asks for a block and for those beside it at every event. Here one search finds all of
//! them, where a tree of the standard library is searched for each.

#[cfg(test)]
mod tests;

use std::ops::Range;

/// The longest run: a search reads a few lines of the cache, and an insertion moves a few KiB.
const RUN: usize = 128;

/// Values by address, each address once.
#[derive(Clone, Debug)]
pub(crate) struct ByAddress<T> {
    firsts: Vec<u64>,
    runs: Vec<Run<T>>,
}

#[derive(Clone, Debug)]
struct Run<T> {
    addresses: Vec<u64>,
    values: Vec<T>,
}

/// A place between two entries, until the next change: the entry behind it is the first that is not below the address
/// that was sought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    run: usize,
    index: usize,
}

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self { firsts: Vec::new(), runs: Vec::new() }
    }
}

impl<T> ByAddress<T> {
    /// The place before the first entry that is at an address or behind it.
    pub(crate) fn seek(&self, address: u64) -> Place {
        // The entry is in the last run that begins below the address, or is the first of the next.
        let run = self.firsts.partition_point(|first| *first < address).saturating_sub(1);
        let index = self.runs.get(run).map_or(0, |run| run.addresses.partition_point(|at| *at < address));
        Place { run, index }
    }

    /// The entry behind a place.
    pub(crate) fn behind(&self, place: Place) -> Option<(u64, &T)> {
        let run = self.runs.get(place.run)?;
        match run.addresses.get(place.index) {
            Some(address) => Some((*address, &run.values[place.index])),
            None => self.runs.get(place.run + 1).map(|run| (run.addresses[0], &run.values[0])),
        }
    }

    /// The entry before a place.
    pub(crate) fn before(&self, place: Place) -> Option<(u64, &T)> {
        let (run, index) = self.index_before(place)?;
        Some((self.runs[run].addresses[index], &self.runs[run].values[index]))
    }

    /// The entry before a place, to be changed.
    pub(crate) fn before_mut(&mut self, place: Place) -> Option<(u64, &mut T)> {
        let (run, index) = self.index_before(place)?;
        let run = &mut self.runs[run];
        Some((run.addresses[index], &mut run.values[index]))
    }

    /// The last entry that is not behind an address.
    pub(crate) fn at_or_before(&self, address: u64) -> Option<(u64, &T)> {
        self.before(self.place_behind(address))
    }

    /// The same, to be changed.
    pub(crate) fn at_or_before_mut(&mut self, address: u64) -> Option<(u64, &mut T)> {
        self.before_mut(self.place_behind(address))
    }

    /// The value at an address.
    pub(crate) fn get(&self, address: u64) -> Option<&T> {
        self.at_or_before(address).filter(|(at, _)| *at == address).map(|(_, value)| value)
    }

    /// The value at an address, to be changed.
    pub(crate) fn get_mut(&mut self, address: u64) -> Option<&mut T> {
        self.at_or_before_mut(address).filter(|(at, _)| *at == address).map(|(_, value)| value)
    }

    /// Puts a value at an address; the old one, if there was any, is let go of.
    pub(crate) fn insert(&mut self, address: u64, value: T) {
        match self.get_mut(address) {
            Some(old) => *old = value,
            None => self.insert_at(self.seek(address), address, value),
        }
    }

    /// Puts a value at an address that has none, at the place that [`seek`](Self::seek) gave for it.
    pub(crate) fn insert_at(&mut self, place: Place, address: u64, value: T) {
        let Place { run: at, index } = place;
        let Some(run) = self.runs.get_mut(at) else {
            self.firsts.push(address);
            self.runs.push(Run { addresses: vec![address], values: vec![value] });
            return;
        };
        run.addresses.insert(index, address);
        run.values.insert(index, value);
        self.firsts[at] = run.addresses[0];
        if run.addresses.len() > RUN {
            let half =
                Run { addresses: run.addresses.split_off(RUN / 2), values: run.values.split_off(RUN / 2) };
            self.firsts.insert(at + 1, half.addresses[0]);
            self.runs.insert(at + 1, half);
        }
    }

    /// Takes the value at an address out.
    pub(crate) fn remove(&mut self, address: u64) -> Option<T> {
        let (at, index) = self.index_before(self.place_behind(address))?;
        let run = &mut self.runs[at];
        if run.addresses[index] != address {
            return None;
        }
        run.addresses.remove(index);
        let value = run.values.remove(index);
        match run.addresses.first() {
            Some(first) => self.firsts[at] = *first,
            None => {
                self.firsts.remove(at);
                self.runs.remove(at);
            }
        }
        Some(value)
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.runs.iter().flat_map(|run| run.addresses.iter().copied().zip(&run.values))
    }

    /// The entries in a range of addresses, in order.
    pub(crate) fn range(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &T)> {
        let Place { run, index } = self.seek(range.start);
        let runs = self.runs.get(run..).unwrap_or_default();
        let entries = runs.iter().flat_map(|run| run.addresses.iter().copied().zip(&run.values));
        entries.skip(index).take_while(move |(address, _)| *address < range.end)
    }

    fn place_behind(&self, address: u64) -> Place {
        match address.checked_add(1) {
            Some(next) => self.seek(next),
            None => Place { run: self.runs.len(), index: 0 },
        }
    }

    fn index_before(&self, place: Place) -> Option<(usize, usize)> {
        match place.index.checked_sub(1) {
            Some(index) => Some((place.run, index)),
            None => {
                let run = place.run.checked_sub(1)?;
                Some((run, self.runs[run].addresses.len() - 1))
            }
        }
    }
}
