//! [`memory_stats`]: the statistics under the names of `torch.cuda.memory_stats`.

use c10_core::stat::{Stat, StatArray};

use super::DeviceStats;

/// The statistics of a device as `torch.cuda.memory_stats` gives them: `allocated_bytes.all.current` and so on,
/// in the order of their names.
///
/// ```
/// let stats = c10_cuda::alloc::memory_stats(&Default::default());
/// assert_eq!(stats[0], ("active.all.allocated".to_owned(), 0));
/// assert!(stats.iter().any(|(key, _)| key == "reserved_bytes.large_pool.peak"));
/// ```
pub fn memory_stats(stats: &DeviceStats) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    for (name, array) in stats.arrays() {
        push_array(&mut all, name, array);
    }
    for (pool, array) in &stats.reserved_bytes_by_private_pools {
        push_array(
            &mut all,
            &format!("reserved_bytes_by_private_pools.{}_{}", pool.first, pool.second),
            array,
        );
    }
    push(&mut all, "oversize_allocations", &stats.oversize_allocations);
    push(&mut all, "oversize_segments", &stats.oversize_segments);
    let counters = stats.counters().into_iter().chain([("max_split_size", stats.max_split_size)]);
    all.extend(counters.map(|(name, value)| (name.to_owned(), value)));
    all.sort();
    all
}

fn push_array(all: &mut Vec<(String, i64)>, name: &str, array: &StatArray) {
    for (pool, stat) in [("all", &array.all), ("large_pool", &array.large), ("small_pool", &array.small)] {
        push(all, &format!("{name}.{pool}"), stat);
    }
}

fn push(all: &mut Vec<(String, i64)>, name: &str, stat: &Stat) {
    let values = [
        ("current", stat.current),
        ("peak", stat.peak),
        ("allocated", stat.allocated),
        ("freed", stat.freed),
    ];
    all.extend(values.map(|(value, number)| (format!("{name}.{value}"), number)));
}
