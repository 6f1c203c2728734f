//! [`History`]: who last used each byte of one memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{Epoch, VectorClock};
use super::report::Use;

/// A use, with its moment.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) epoch: Epoch,
    pub(super) by: Arc<Use>,
    /// Which life of its block it was in; 0 where no allocator hands out blocks.
    pub(super) life: u64,
}

impl Made {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.by, &other.by)
    }
}

/// The last write of some bytes, and the reads after it that nothing orders among each other.
#[derive(Clone, Debug, Default)]
struct Cell {
    end: u64,
    write: Option<Made>,
    reads: Vec<Made>,
}

/// The cells of one memory, by first byte. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct History {
    cells: BTreeMap<u64, Cell>,
}

impl History {
    /// How many cells there are.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Notes a write of `[from, to)`, and gives the uses that `now` does not cover to `found`.
    pub(super) fn write(
        &mut self,
        from: u64,
        to: u64,
        now: &VectorClock,
        made: &Made,
        found: &mut Vec<Made>,
    ) {
        self.cut(from);
        self.cut(to);
        let old: Vec<u64> = self.cells.range(from..to).map(|(at, _)| *at).collect();
        for at in old {
            let cell = self.cells.remove(&at).unwrap_or_default();
            add_uncovered(cell.write.iter().chain(&cell.reads), now, found);
        }
        self.cells.insert(from, Cell { end: to, write: Some(made.clone()), reads: Vec::new() });
    }

    /// Notes a read of `[from, to)`, and gives the writes that `now` does not cover to `found`.
    pub(super) fn read(&mut self, from: u64, to: u64, now: &VectorClock, made: &Made, found: &mut Vec<Made>) {
        self.cut(from);
        self.cut(to);
        let mut gaps = Vec::new();
        let mut at = from;
        for (&start, cell) in self.cells.range_mut(from..to) {
            if at < start {
                gaps.push((at, start));
            }
            at = cell.end;
            add_uncovered(&cell.write, now, found);
            cell.reads.retain(|read| !now.covers(read.epoch));
            cell.reads.push(made.clone());
        }
        if at < to {
            gaps.push((at, to));
        }
        for (start, end) in gaps {
            self.cells.insert(start, Cell { end, write: None, reads: vec![made.clone()] });
        }
    }

    /// Forgets `[from, to)`, and gives the uses that `now` does not cover to `found`.
    pub(super) fn forget(&mut self, from: u64, to: u64, now: &VectorClock, found: &mut Vec<Made>) {
        self.look(from, to, now, found);
        self.cut(from);
        self.cut(to);
        let old: Vec<u64> = self.cells.range(from..to).map(|(at, _)| *at).collect();
        old.iter().for_each(|at| _ = self.cells.remove(at));
    }

    /// Gives the uses of `[from, to)` that `now` does not cover to `found`.
    pub(super) fn look(&self, from: u64, to: u64, now: &VectorClock, found: &mut Vec<Made>) {
        let before = self.cells.range(..from).next_back().filter(|(_, cell)| cell.end > from);
        for (_, cell) in before.into_iter().chain(self.cells.range(from..to)) {
            add_uncovered(cell.write.iter().chain(&cell.reads), now, found);
        }
    }

    /// Forgets all that `over` covers.
    pub(super) fn sweep(&mut self, over: &VectorClock) {
        self.cells.retain(|_, cell| {
            cell.write.take_if(|write| over.covers(write.epoch));
            cell.reads.retain(|read| !over.covers(read.epoch));
            cell.write.is_some() || !cell.reads.is_empty()
        });
    }

    /// Makes `at` no inner byte of a cell.
    fn cut(&mut self, at: u64) {
        if let Some((_, cell)) = self.cells.range_mut(..at).next_back()
            && cell.end > at
        {
            let rest = cell.clone();
            cell.end = at;
            self.cells.insert(at, rest);
        }
    }
}

fn add_uncovered<'a>(made: impl IntoIterator<Item = &'a Made>, now: &VectorClock, found: &mut Vec<Made>) {
    for made in made {
        if !now.covers(made.epoch) && !found.iter().any(|other| other.is(made)) {
            found.push(made.clone());
        }
    }
}
