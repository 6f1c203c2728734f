//! The lines of a device's statistics.

use c10_core::DeviceIndex;
use c10_core::stat::{Stat, StatArray};
use c10_cuda::CachingAllocator;

use super::Stop;
use super::places::pool_name;

pub(super) fn lines(allocator: &CachingAllocator, device: DeviceIndex) -> Result<String, Stop> {
    let stats = allocator.device_stats(device)?;
    let mut text = String::new();
    for (name, array) in stats.arrays() {
        add_array(&mut text, name, array);
    }
    for (pool, array) in &stats.reserved_bytes_by_private_pools {
        add_array(&mut text, &format!("reserved_bytes_by_private_pools.{}", pool_name(*pool)), array);
    }
    for (name, count) in stats.counters() {
        text += &format!("stat {name} {count}\n");
    }
    for (name, Stat { current, peak, .. }) in
        [("oversize_allocations", stats.oversize_allocations), ("oversize_segments", stats.oversize_segments)]
    {
        text += &format!("stat {name} current {current} peak {peak}\n");
    }
    Ok(text)
}

fn add_array(text: &mut String, name: &str, StatArray { all, small, large }: &StatArray) {
    for (pool, Stat { current, peak, allocated, freed }) in [("all", all), ("small", small), ("large", large)]
    {
        *text += &format!(
            "stat {name}.{pool} current {current} peak {peak} allocated {allocated} freed {freed}\n"
        );
    }
}
