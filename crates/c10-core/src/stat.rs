//! The counters of a caching allocator: [`Stat`], [`StatArray`], [`DurationStat`] (PyTorch's `Stat`,
//! `StatArray`, `DurationStat`).
//!
//! Sums that only grow wrap round: 2^63 bytes pass through an allocator sooner than it holds them.

/// One quantity over time. Values are `i64`, as PyTorch has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its value now.
    pub current: i64,
    /// Its largest value since the last [`reset_peak`](Self::reset_peak).
    pub peak: i64,
    /// The sum of all increases since the last [`reset_accumulated`](Self::reset_accumulated).
    pub allocated: i64,
    /// The sum of all decreases since then.
    pub freed: i64,
}

impl Stat {
    /// Adds `amount`.
    #[inline]
    pub fn increase(&mut self, amount: i64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated = self.allocated.wrapping_add(amount);
    }

    /// Takes `amount` away.
    #[inline]
    pub fn decrease(&mut self, amount: i64) {
        self.current -= amount;
        self.freed = self.freed.wrapping_add(amount);
    }

    /// What `times` rounds do, each of which takes `amount` away and adds it again: the sums grow.
    #[inline]
    pub fn repeat(&mut self, amount: i64, times: i64) {
        let sum = amount.wrapping_abs().wrapping_mul(times);
        self.allocated = self.allocated.wrapping_add(sum);
        self.freed = self.freed.wrapping_add(sum);
    }

    /// Forgets what was added and taken; the value and its peak stay.
    pub fn reset_accumulated(&mut self) {
        self.allocated = 0;
        self.freed = 0;
    }

    /// Makes the peak the current value.
    pub fn reset_peak(&mut self) {
        self.peak = self.current;
    }
}

/// Which part of a device's memory a [`StatArray`] entry speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatType {
    /// All of it.
    Aggregate,
    /// The pool of small blocks.
    SmallPool,
    /// The pool of large blocks.
    LargePool,
}

/// A [`Stat`] for all memory and one for each of the two pools. Every change touches the aggregate and one
/// pool, so that the aggregate is always their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatArray {
    /// Both pools together.
    pub all: Stat,
    /// The pool of small blocks.
    pub small: Stat,
    /// The pool of large blocks.
    pub large: Stat,
}

impl StatArray {
    /// The entry of one type.
    pub fn of(&self, which: StatType) -> &Stat {
        match which {
            StatType::Aggregate => &self.all,
            StatType::SmallPool => &self.small,
            StatType::LargePool => &self.large,
        }
    }

    /// Adds `amount` to the aggregate and to one pool.
    #[inline]
    pub fn increase(&mut self, is_small: bool, amount: i64) {
        self.all.increase(amount);
        if is_small { self.small.increase(amount) } else { self.large.increase(amount) }
    }

    /// Takes `amount` from the aggregate and from one pool.
    #[inline]
    pub fn decrease(&mut self, is_small: bool, amount: i64) {
        self.all.decrease(amount);
        if is_small { self.small.decrease(amount) } else { self.large.decrease(amount) }
    }

    /// [`Stat::repeat`] of the aggregate and of one pool.
    #[inline]
    pub fn repeat(&mut self, is_small: bool, amount: i64, times: i64) {
        self.all.repeat(amount, times);
        if is_small { self.small.repeat(amount, times) } else { self.large.repeat(amount, times) }
    }

    /// Adds `amount` if it is positive, and takes its magnitude away if it is negative.
    #[inline]
    pub fn change(&mut self, is_small: bool, amount: i64) {
        if amount >= 0 { self.increase(is_small, amount) } else { self.decrease(is_small, -amount) }
    }

    /// [`Stat::reset_accumulated`] of all three.
    pub fn reset_accumulated(&mut self) {
        self.all.reset_accumulated();
        self.small.reset_accumulated();
        self.large.reset_accumulated();
    }

    /// [`Stat::reset_peak`] of all three.
    pub fn reset_peak(&mut self) {
        self.all.reset_peak();
        self.small.reset_peak();
        self.large.reset_peak();
    }
}

/// How long calls took, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationStat {
    /// The sum of all durations since the last [`reset_accumulated`](Self::reset_accumulated).
    pub total: i64,
    /// The longest one since the last [`reset_peak`](Self::reset_peak).
    pub max: i64,
    /// The shortest one since then; 0 while there is none.
    pub min: i64,
    /// How many there were since the last [`reset_accumulated`](Self::reset_accumulated).
    pub count: i64,
}

impl DurationStat {
    /// Counts one call that took `microseconds`.
    #[inline]
    pub fn increase(&mut self, microseconds: i64) {
        self.total += microseconds;
        self.max = self.max.max(microseconds);
        self.min = if self.min == 0 { microseconds } else { self.min.min(microseconds) };
        self.count += 1;
    }

    /// Forgets the sum and the count; the extremes stay.
    pub fn reset_accumulated(&mut self) {
        self.total = 0;
        self.count = 0;
    }

    /// Forgets the extremes.
    pub fn reset_peak(&mut self) {
        self.min = 0;
        self.max = 0;
    }
}
