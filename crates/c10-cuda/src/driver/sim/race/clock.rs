//! [`VectorClock`]: how much of each line of work is over.

/// A line of work, by number: a stream, or the host.
pub(super) type Line = usize;

/// The host's line.
pub(super) const HOST: Line = 0;

/// A moment of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) line: Line,
    /// Counts the uses of the line, from 1.
    pub(super) tick: u64,
}

/// For each line the last moment that is over. Lines that it does not name have not begun.
#[derive(Clone, Debug, Default)]
pub(super) struct VectorClock(Vec<u64>);

impl VectorClock {
    /// The last moment of a line that is over.
    pub(super) fn tick_of(&self, line: Line) -> u64 {
        self.0.get(line).copied().unwrap_or(0)
    }

    /// Moves a line on by one moment, and gives that.
    pub(super) fn advance(&mut self, line: Line) -> Epoch {
        self.reach(line, 0);
        self.0[line] += 1;
        Epoch { line, tick: self.0[line] }
    }

    /// Adds that a line is over up to a moment.
    pub(super) fn reach(&mut self, line: Line, tick: u64) {
        if self.0.len() <= line {
            self.0.resize(line + 1, 0);
        }
        self.0[line] = self.0[line].max(tick);
    }

    /// Whether a moment is over.
    pub(super) fn covers(&self, epoch: Epoch) -> bool {
        self.tick_of(epoch.line) >= epoch.tick
    }

    /// Adds all that is over by another's account. Whether that was news.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut news = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if *mine < *theirs {
                *mine = *theirs;
                news = true;
            }
        }
        news
    }
}
