//! `memory_summary`, against lines that PyTorch printed.

use c10_core::stat::{Stat, StatArray};
use c10_cuda::alloc::{DeviceStats, memory_stats, memory_summary};

fn stat([current, peak, allocated, freed]: [i64; 4]) -> Stat {
    Stat { current, peak, allocated, freed }
}

fn array(all: [i64; 4], large: [i64; 4], small: [i64; 4]) -> StatArray {
    StatArray { all: stat(all), large: stat(large), small: stat(small) }
}

const MIB: i64 = 1 << 20;

#[test]
fn the_lines_are_pytorchs() {
    let none = [0; 4];
    let stats = DeviceStats {
        num_ooms: 1,
        num_alloc_retries: 2,
        allocated_bytes: array([3072 * MIB, 5120 * MIB, 900 << 10, 100], none, none),
        reserved_bytes: array([786_431, 786_432, 805_306_367, 805_306_368], none, none),
        allocation: array([749_999, 750_000, 749_999_999, 750_000_000], none, none),
        ..DeviceStats::default()
    };
    let summary = memory_summary(&stats, 0, true);
    for line in [
        "|            CUDA OOMs: 1            |        cudaMalloc retries: 2         |",
        "| Allocated memory      |   3072 MiB |   5120 MiB |    900 KiB |    100 B   |",
        "| GPU reserved memory   | 786431 B   |    768 KiB | 786431 KiB |    768 MiB |",
        "| Allocations           |  749999    |     750 K  |  749999 K  |     750 M  |",
    ] {
        assert!(summary.lines().any(|printed| printed == line), "{line}\n{summary}");
    }
    assert!(summary.ends_with("|\n"));
}

#[test]
fn the_pools_are_shown_in_the_unit_of_their_sum() {
    let stats = DeviceStats {
        allocated_bytes: array([800 * MIB, 900 * MIB, 3, 4], [799 * MIB + 7, 2, 1, 1], [1023, 5, 2, 3]),
        allocation: array([1_000_000, 8, 9, 1], [999_999, 4, 5, 1], [1, 4, 4, 0]),
        oversize_allocations: stat([7, 800_000, 9, 2]),
        oversize_segments: stat([1, 2, 3, 4]),
        ..DeviceStats::default()
    };
    let summary = memory_summary(&stats, 12, false);
    assert!(summary.lines().all(|line| line.len() == 77), "{summary}");
    insta::assert_snapshot!(summary, @"
    |===========================================================================|
    |                  PyTorch CUDA memory summary, device ID 12                |
    |---------------------------------------------------------------------------|
    |            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
    |===========================================================================|
    |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
    |---------------------------------------------------------------------------|
    | Allocated memory      |    800 MiB |    900 MiB |      3 B   |      4 B   |
    |       from large pool |    799 MiB |      0 MiB |      1 B   |      1 B   |
    |       from small pool |      0 MiB |      0 MiB |      2 B   |      3 B   |
    |---------------------------------------------------------------------------|
    | Active memory         |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from large pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |---------------------------------------------------------------------------|
    | Requested memory      |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from large pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |---------------------------------------------------------------------------|
    | GPU reserved memory   |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from large pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |---------------------------------------------------------------------------|
    | Non-releasable memory |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from large pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |
    |---------------------------------------------------------------------------|
    | Allocations           |    1000 K  |       8    |       9    |       1    |
    |       from large pool |     999 K  |       4    |       5    |       1    |
    |       from small pool |       0 K  |       4    |       4    |       0    |
    |---------------------------------------------------------------------------|
    | Active allocs         |       0    |       0    |       0    |       0    |
    |       from large pool |       0    |       0    |       0    |       0    |
    |       from small pool |       0    |       0    |       0    |       0    |
    |---------------------------------------------------------------------------|
    | GPU reserved segments |       0    |       0    |       0    |       0    |
    |       from large pool |       0    |       0    |       0    |       0    |
    |       from small pool |       0    |       0    |       0    |       0    |
    |---------------------------------------------------------------------------|
    | Non-releasable allocs |       0    |       0    |       0    |       0    |
    |       from large pool |       0    |       0    |       0    |       0    |
    |       from small pool |       0    |       0    |       0    |       0    |
    |---------------------------------------------------------------------------|
    | Oversize allocations  |       7    |     800 K  |       9    |       2    |
    |---------------------------------------------------------------------------|
    | Oversize GPU segments |       1    |       2    |       3    |       4    |
    |===========================================================================|
    ");
}

#[test]
fn the_largest_unit_is_kept_beyond_its_range() {
    let stats =
        DeviceStats { reserved_bytes: array([i64::MAX, 0, 0, 0], [0; 4], [0; 4]), ..DeviceStats::default() };
    let summary = memory_summary(&stats, 0, true);
    assert!(summary.contains("| GPU reserved memory   |   8191 PiB |"), "{summary}");
}

/// Statistics with a value of every size in every place.
fn varied() -> DeviceStats {
    let mut next = 1_i64;
    let mut value = || {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Spread over their logarithm.
        (next as u64 >> 2 >> (next as u64 % 61)) as i64
    };
    let mut stat = || Stat { current: value(), peak: value(), allocated: value(), freed: value() };
    let mut array = || StatArray { all: stat(), large: stat(), small: stat() };
    let mut stats = DeviceStats {
        allocation: array(),
        segment: array(),
        active: array(),
        inactive_split: array(),
        allocated_bytes: array(),
        reserved_bytes: array(),
        active_bytes: array(),
        inactive_split_bytes: array(),
        requested_bytes: array(),
        num_alloc_retries: 31,
        num_ooms: 7,
        num_sync_all_streams: 12,
        num_device_alloc: 1_000_000,
        num_device_free: 5,
        num_oom_rejections: 3,
        max_split_size: 128 * MIB,
        ..DeviceStats::default()
    };
    stats.oversize_allocations = stat();
    stats.oversize_segments = stat();
    stats
}

/// PyTorch's own function over statistics that it is handed, and the names by which it knows them.
const SUMMARY: &str = r#"
import sys
from torch.cuda import memory
stats = {key: int(value) for key, value in (line.split() for line in sys.stdin)}
assert list(stats) == sorted(stats)
memory.memory_stats = lambda device=None: stats
memory._get_device_index = lambda device, optional=False: device
for abbreviated in (False, True):
    sys.stdout.write(memory.memory_summary(3, abbreviated))
"#;

#[test]
fn the_whole_table_is_pytorchs() {
    let stats = varied();
    let ours = memory_summary(&stats, 3, false) + &memory_summary(&stats, 3, true);
    let lines: String = memory_stats(&stats).iter().map(|(key, value)| format!("{key} {value}\n")).collect();
    if let Some(theirs) = crate::torch::run(SUMMARY, &[], lines.as_bytes()) {
        assert_eq!(ours, theirs);
    }
    // The same where there is no PyTorch: what it had printed.
    insta::assert_snapshot!(ours);
}

#[test]
fn statistics_have_pytorchs_names() {
    let names: Vec<_> = memory_stats(&varied()).into_iter().map(|(key, _)| key).collect();
    assert!(names.is_sorted());
    insta::assert_snapshot!(names.join("\n"));
    let mut stats = DeviceStats::default();
    let pool = c10_cuda::alloc::MempoolId { first: 0, second: 7 };
    stats.reserved_bytes_by_private_pools.insert(pool, array([5, 6, 7, 2], [4, 4, 4, 0], [1, 2, 3, 2]));
    let of_pool: Vec<_> =
        memory_stats(&stats).into_iter().filter(|(key, _)| key.contains("pools.")).collect();
    assert_eq!(of_pool.len(), 12);
    assert!(of_pool.contains(&("reserved_bytes_by_private_pools.0_7.large_pool.peak".into(), 4)));
}
