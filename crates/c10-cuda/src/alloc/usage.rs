//! [`Usage`]: the statistics that change with every block that comes and goes.
//!
//! // Note [Counted once]
//! [`DeviceStats`] says more than has to be counted. What was freed is what was allocated less what is there; the
//! aggregate is the sum of the two pools; what the program holds is what is active less what waits for other
//! streams, and it was handed out at the same time. So a block is counted once, for its pool, and the rest is
//! worked out when somebody asks. Peaks alone do not follow from anything: those of the pools and of their sum are
//! looked at with every increase.

use c10_core::stat::{Stat, StatArray};

use super::stats::DeviceStats;

/// What is counted of blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    large: Pool,
    small: Pool,
    peaks: Peaks,
}

/// What is counted of one pool's blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    blocks: Active,
    bytes: Active,
    requested: Quantity,
    split: Quantity,
    split_bytes: Quantity,
}

/// The largest sums of the two pools.
#[derive(Clone, Copy, Debug, Default)]
struct Peaks {
    blocks: ActivePeak,
    bytes: ActivePeak,
    requested: i64,
    split: i64,
    split_bytes: i64,
}

impl Usage {
    /// Counts a block that is handed out.
    #[inline]
    pub(crate) fn hand_out(&mut self, is_small: bool, size: u64, requested: u64) {
        let (pool, other, peaks) = self.parts(is_small);
        pool.blocks.increase(1, &other.blocks, &mut peaks.blocks);
        pool.bytes.increase(size as i64, &other.bytes, &mut peaks.bytes);
        pool.requested.change(requested as i64, &other.requested, &mut peaks.requested);
    }

    /// Counts a block that comes back and is free at once.
    #[inline]
    pub(crate) fn free(&mut self, is_small: bool, size: u64, requested: u64) {
        let pool = self.pool(is_small);
        pool.blocks.now -= 1;
        pool.bytes.now -= size as i64;
        pool.requested.now -= requested as i64;
    }

    /// Counts a block that comes back and waits for other streams.
    #[inline]
    pub(crate) fn wait(&mut self, is_small: bool, size: u64) {
        let pool = self.pool(is_small);
        pool.blocks.waiting += 1;
        pool.bytes.waiting += size as i64;
    }

    /// Counts a block that has waited and is free.
    #[inline]
    pub(crate) fn end_wait(&mut self, is_small: bool, size: u64, requested: u64) {
        let pool = self.pool(is_small);
        pool.blocks.waiting -= 1;
        pool.bytes.waiting -= size as i64;
        self.free(is_small, size, requested);
    }

    /// Counts free blocks, and their bytes, of segments that are in use in part: so many more, or fewer.
    #[inline]
    pub(crate) fn change_split(&mut self, is_small: bool, (blocks, bytes): (i64, i64)) {
        let (pool, other, peaks) = self.parts(is_small);
        pool.split.change(blocks, &other.split, &mut peaks.split);
        pool.split_bytes.change(bytes, &other.split_bytes, &mut peaks.split_bytes);
    }

    /// Counts a block that came back and went out again so often, which each time changed the free blocks by
    /// `split`.
    pub(crate) fn repeat(
        &mut self,
        is_small: bool,
        (size, requested): (u64, u64),
        split: (i64, i64),
        times: i64,
    ) {
        let add = |sum: &mut i64, amount: i64| {
            *sum = sum.wrapping_add(amount.wrapping_abs().wrapping_mul(times));
        };
        let pool = self.pool(is_small);
        add(&mut pool.blocks.sum, 1);
        add(&mut pool.bytes.sum, size as i64);
        add(&mut pool.requested.sum, requested as i64);
        add(&mut pool.split.sum, split.0);
        add(&mut pool.split_bytes.sum, split.1);
    }

    /// The free blocks of segments that are in use in part, and their bytes.
    pub(crate) fn split_now(&self) -> (i64, i64) {
        let Self { large, small, .. } = self;
        (large.split.now + small.split.now, large.split_bytes.now + small.split_bytes.now)
    }

    /// The bytes of the blocks that the program holds.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        (self.large.bytes.held() + self.small.bytes.held()) as u64
    }

    /// Whether no block is handed out or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.large.blocks.now == 0 && self.small.blocks.now == 0
    }

    /// Fills in what is counted here.
    pub(crate) fn fill(&self, stats: &mut DeviceStats) {
        let Self { large, small, peaks } = self;
        let active = |pools: [&Active; 2], peak: &ActivePeak| array(pools.map(Active::stat), peak.all);
        let held = |pools: [&Active; 2], peak: &ActivePeak| array(pools.map(Active::held_stat), peak.held);
        let other = |pools: [&Quantity; 2], peak| array(pools.map(Quantity::stat), peak);
        stats.allocation = held([&large.blocks, &small.blocks], &peaks.blocks);
        stats.allocated_bytes = held([&large.bytes, &small.bytes], &peaks.bytes);
        stats.active = active([&large.blocks, &small.blocks], &peaks.blocks);
        stats.active_bytes = active([&large.bytes, &small.bytes], &peaks.bytes);
        stats.requested_bytes = other([&large.requested, &small.requested], peaks.requested);
        stats.inactive_split = other([&large.split, &small.split], peaks.split);
        stats.inactive_split_bytes = other([&large.split_bytes, &small.split_bytes], peaks.split_bytes);
    }

    pub(crate) fn reset_accumulated(&mut self) {
        for pool in [&mut self.large, &mut self.small] {
            pool.blocks.reset_accumulated();
            pool.bytes.reset_accumulated();
            pool.requested.reset_accumulated();
            pool.split.reset_accumulated();
            pool.split_bytes.reset_accumulated();
        }
    }

    pub(crate) fn reset_peak(&mut self) {
        for pool in [&mut self.large, &mut self.small] {
            pool.blocks.reset_peak();
            pool.bytes.reset_peak();
            pool.requested.peak = pool.requested.now;
            pool.split.peak = pool.split.now;
            pool.split_bytes.peak = pool.split_bytes.now;
        }
        let Self { large, small, .. } = self;
        self.peaks = Peaks {
            blocks: ActivePeak::now(&large.blocks, &small.blocks),
            bytes: ActivePeak::now(&large.bytes, &small.bytes),
            requested: large.requested.now + small.requested.now,
            split: large.split.now + small.split.now,
            split_bytes: large.split_bytes.now + small.split_bytes.now,
        };
    }

    #[inline]
    fn pool(&mut self, is_small: bool) -> &mut Pool {
        if is_small { &mut self.small } else { &mut self.large }
    }

    /// A pool, the other, and the peaks of both.
    #[inline]
    fn parts(&mut self, is_small: bool) -> (&mut Pool, &Pool, &mut Peaks) {
        let Self { large, small, peaks } = self;
        if is_small { (small, large, peaks) } else { (large, small, peaks) }
    }
}

/// A quantity of one pool.
#[derive(Clone, Copy, Debug, Default)]
struct Quantity {
    now: i64,
    peak: i64,
    /// All increases.
    sum: i64,
    /// What `now` was when `sum` was 0.
    base: i64,
}

impl Quantity {
    #[inline]
    fn change(&mut self, amount: i64, other: &Self, peak_of_all: &mut i64) {
        self.now += amount;
        // What has not grown is not above its peak.
        if amount > 0 {
            self.sum = self.sum.wrapping_add(amount);
            self.peak = self.peak.max(self.now);
            *peak_of_all = (*peak_of_all).max(self.now + other.now);
        }
    }

    fn stat(&self) -> Stat {
        stat(self.now, self.peak, self.sum, self.base)
    }

    fn reset_accumulated(&mut self) {
        (self.sum, self.base) = (0, self.now);
    }
}

/// A quantity of one pool's active blocks, of which the program holds some and the others wait.
#[derive(Clone, Copy, Debug, Default)]
struct Active {
    now: i64,
    /// The part of `now` that waits.
    waiting: i64,
    peak: i64,
    /// The largest that was held; `peak` or less.
    held_peak: i64,
    /// All increases: of what is held and of what is active alike.
    sum: i64,
    /// What `now` was when `sum` was 0, and what was held.
    base: i64,
    held_base: i64,
}

/// The largest sums of an active quantity of the two pools.
#[derive(Clone, Copy, Debug, Default)]
struct ActivePeak {
    all: i64,
    /// Of what was held; `all` or less.
    held: i64,
}

impl Active {
    #[inline]
    fn increase(&mut self, amount: i64, other: &Self, peaks: &mut ActivePeak) {
        self.now += amount;
        self.sum = self.sum.wrapping_add(amount);
        // Where all that is active is not above what was held, nothing is at its peak.
        if self.now > self.held_peak || self.now + other.now > peaks.held {
            self.look_at_peaks(other, peaks);
        }
    }

    fn look_at_peaks(&mut self, other: &Self, peaks: &mut ActivePeak) {
        self.peak = self.peak.max(self.now);
        self.held_peak = self.held_peak.max(self.held());
        let now = ActivePeak::now(self, other);
        *peaks = ActivePeak { all: peaks.all.max(now.all), held: peaks.held.max(now.held) };
    }

    fn held(&self) -> i64 {
        self.now - self.waiting
    }

    fn stat(&self) -> Stat {
        stat(self.now, self.peak, self.sum, self.base)
    }

    fn held_stat(&self) -> Stat {
        stat(self.held(), self.held_peak, self.sum, self.held_base)
    }

    fn reset_accumulated(&mut self) {
        (self.sum, self.base, self.held_base) = (0, self.now, self.held());
    }

    fn reset_peak(&mut self) {
        (self.peak, self.held_peak) = (self.now, self.held());
    }
}

impl ActivePeak {
    fn now(a: &Active, b: &Active) -> Self {
        Self { all: a.now + b.now, held: a.held() + b.held() }
    }
}

fn stat(current: i64, peak: i64, sum: i64, base: i64) -> Stat {
    Stat { current, peak, allocated: sum, freed: sum.wrapping_sub(current - base) }
}

fn array([large, small]: [Stat; 2], peak: i64) -> StatArray {
    let all = Stat {
        current: small.current + large.current,
        peak,
        allocated: small.allocated.wrapping_add(large.allocated),
        freed: small.freed.wrapping_add(large.freed),
    };
    StatArray { all, small, large }
}

#[cfg(test)]
mod tests;
