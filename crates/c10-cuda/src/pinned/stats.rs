//! [`HostStats`]: what the allocator of pinned memory counts (`at::HostStats`).

use c10_core::stat::{DurationStat, Stat};

/// The statistics. Sizes are in bytes, of whole blocks; times in microseconds, 0 without a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Blocks that the allocator has.
    pub allocations: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
    /// Blocks that the program holds, or that streams have not passed.
    pub active_requests: Stat,
    /// Their bytes.
    pub active_bytes: Stat,
    /// Blocks that were made.
    pub num_host_alloc: i64,
    /// Blocks that went back to the driver.
    pub num_host_free: i64,
    /// The driver's calls that pin memory.
    pub host_alloc_time: DurationStat,
    /// Those that give it back.
    pub host_free_time: DurationStat,
}

impl HostStats {
    /// Zeroes everything that only grows.
    pub fn reset_accumulated(&mut self) {
        self.stats_mut().into_iter().for_each(Stat::reset_accumulated);
        self.num_host_alloc = 0;
        self.num_host_free = 0;
        self.host_alloc_time.reset_accumulated();
        self.host_free_time.reset_accumulated();
    }

    /// Makes every peak the current value, and forgets the longest and the shortest time.
    pub fn reset_peak(&mut self) {
        self.stats_mut().into_iter().for_each(Stat::reset_peak);
        self.host_alloc_time.reset_peak();
        self.host_free_time.reset_peak();
    }

    /// Every number with PyTorch's key (`active_bytes.current`, `host_alloc_time.avg`), sorted by the key as
    /// `torch.cuda.host_memory_stats` has them.
    pub fn keys(&self) -> Vec<(String, f64)> {
        let mut keys = Vec::new();
        for (name, stat) in [
            ("allocations", &self.allocations),
            ("allocated_bytes", &self.allocated_bytes),
            ("active_requests", &self.active_requests),
            ("active_bytes", &self.active_bytes),
        ] {
            let Stat { current, peak, allocated, freed } = *stat;
            for (key, value) in
                [("current", current), ("peak", peak), ("allocated", allocated), ("freed", freed)]
            {
                keys.push((format!("{name}.{key}"), value as f64));
            }
        }
        for (name, time) in
            [("host_alloc_time", &self.host_alloc_time), ("host_free_time", &self.host_free_time)]
        {
            let DurationStat { total, max, min, count } = *time;
            let average = if count == 0 { 0.0 } else { total as f64 / count as f64 };
            for (key, value) in [("total", total), ("max", max), ("min", min), ("count", count)] {
                keys.push((format!("{name}.{key}"), value as f64));
            }
            keys.push((format!("{name}.avg"), average));
        }
        keys.push(("num_host_alloc".into(), self.num_host_alloc as f64));
        keys.push(("num_host_free".into(), self.num_host_free as f64));
        keys.sort_by(|(a, _), (b, _)| a.cmp(b));
        keys
    }

    fn stats_mut(&mut self) -> [&mut Stat; 4] {
        [&mut self.allocations, &mut self.allocated_bytes, &mut self.active_requests, &mut self.active_bytes]
    }
}
