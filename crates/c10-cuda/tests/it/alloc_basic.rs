//! Sizes, placement, statistics: what one stream sees.

use c10_core::allocator::Allocator;
use c10_core::stat::{Stat, StatArray};
use c10_core::{Device, DeviceType, ErrorKind as CoreErrorKind, Stream};
use c10_cuda::driver::sim::SimConfig;
use c10_cuda::driver::{DevicePtr, Driver};
use c10_cuda::{Config, DeviceStats, ErrorKind};

use crate::rig::{BASE, GIB, MIB, Rig, address, place};

/// What every statistic that is not zero is now.
fn currents(stats: &DeviceStats) -> String {
    let arrays = [
        ("allocation", &stats.allocation),
        ("segment", &stats.segment),
        ("active", &stats.active),
        ("inactive_split", &stats.inactive_split),
        ("allocated_bytes", &stats.allocated_bytes),
        ("reserved_bytes", &stats.reserved_bytes),
        ("active_bytes", &stats.active_bytes),
        ("inactive_split_bytes", &stats.inactive_split_bytes),
        ("requested_bytes", &stats.requested_bytes),
    ];
    let mut text: Vec<_> = arrays
        .into_iter()
        .filter(|(_, array)| array.all.current != 0)
        .map(|(name, array)| format!("{name} {}", array.all.current))
        .collect();
    text.push(format!("num_device_alloc {}", stats.num_device_alloc));
    text.join(", ")
}

#[test]
fn a_request_gets_the_block_and_the_segment_of_pytorch() {
    // Request, segment, block, what is left of the segment as a split block.
    let table = [
        (1, 2 * MIB, 512, 2 * MIB - 512),
        (512, 2 * MIB, 512, 2 * MIB - 512),
        (513, 2 * MIB, 1024, 2 * MIB - 1024),
        (MIB, 2 * MIB, MIB, MIB),
        (MIB + 1, 20 * MIB, MIB + 512, 19 * MIB - 512),
        (3 * MIB, 20 * MIB, 3 * MIB, 17 * MIB),
        (10 * MIB - 512, 20 * MIB, 10 * MIB - 512, 10 * MIB + 512),
        (10 * MIB, 10 * MIB, 10 * MIB, 0),
        (11 * MIB, 12 * MIB, 12 * MIB, 0),
        (11 * MIB - 512, 12 * MIB, 11 * MIB - 512, MIB + 512),
        (GIB + 1, GIB + 2 * MIB, GIB + 512, 2 * MIB - 512),
    ];
    for (bytes, segment, block, rest) in table {
        let rig = Rig::new(4 * GIB);
        let ptr = rig.allocate(bytes);
        assert_eq!(rig.memory_calls(), [format!("+{segment}")], "{bytes}");
        assert_eq!(place(&ptr), 0);
        let stats = rig.stats();
        let now = |array: &StatArray| array.all.current as u64;
        assert_eq!(
            [now(&stats.allocated_bytes), now(&stats.requested_bytes), now(&stats.reserved_bytes)],
            [block, bytes, segment],
            "{bytes}"
        );
        assert_eq!([now(&stats.active_bytes), now(&stats.inactive_split_bytes)], [block, rest], "{bytes}");
        let splits = u64::from(rest > 0);
        assert_eq!(
            [now(&stats.allocation), now(&stats.active), now(&stats.segment), now(&stats.inactive_split)],
            [1, 1, 1, splits],
            "{bytes}"
        );
        let (used, unused) = if bytes <= MIB {
            (stats.allocated_bytes.small, stats.allocated_bytes.large)
        } else {
            (stats.allocated_bytes.large, stats.allocated_bytes.small)
        };
        assert_eq!((used.current as u64, unused), (block, Stat::default()), "{bytes}");
        drop(ptr);
        let stats = rig.stats();
        assert_eq!(currents(&stats), format!("segment 1, reserved_bytes {segment}, num_device_alloc 1"));
        assert_eq!(rig.memory_calls(), Vec::<String>::new(), "{bytes}: a free makes no call");
    }
}

#[test]
fn the_first_example_of_pytorch_by_its_numbers() {
    let rig = Rig::new(GIB);
    let ptr = rig.allocate(1);
    insta::assert_snapshot!(currents(&rig.stats()), @"allocation 1, segment 1, active 1, inactive_split 1, allocated_bytes 512, reserved_bytes 2097152, active_bytes 512, inactive_split_bytes 2096640, requested_bytes 1, num_device_alloc 1");
    drop(ptr);
    insta::assert_snapshot!(currents(&rig.stats()), @"segment 1, reserved_bytes 2097152, num_device_alloc 1");
}

#[test]
fn inactive_split_moves_by_the_net_of_a_free_and_its_merges() {
    let rig = Rig::new(GIB);
    let [a, b, c] = [(); 3].map(|()| rig.allocate(512));
    // Each split takes its bytes off the one split block.
    let rest = (2 * MIB - 3 * 512) as i64;
    assert_eq!(
        rig.stats().inactive_split_bytes.all,
        Stat { current: rest, peak: rest + 1024, allocated: rest + 1024, freed: 1024 }
    );
    assert_eq!(rig.stats().inactive_split.all, Stat { current: 1, peak: 1, allocated: 1, freed: 0 });
    drop(b);
    assert_eq!(rig.stats().inactive_split.all.current, 2, "alone between two others");
    assert_eq!(rig.stats().inactive_split_bytes.all.current, rest + 512);
    drop(a);
    assert_eq!(rig.stats().inactive_split.all, Stat { current: 2, peak: 2, allocated: 2, freed: 0 });
    assert_eq!(rig.stats().inactive_split_bytes.all.current, rest + 1024);
    drop(c);
    // Two neighbours go and nothing comes: the segment is whole.
    assert_eq!(rig.stats().inactive_split.all, Stat { current: 0, peak: 2, allocated: 2, freed: 2 });
    assert_eq!(rig.stats().inactive_split_bytes.all.current, 0);
}

#[test]
fn the_smallest_block_that_fits_is_taken_from_the_oldest_segment_first() {
    let rig = Rig::new(GIB);
    let [a, b, c] = [12, 16, 12].map(|mib| rig.allocate(mib * MIB));
    let places = [place(&a), place(&b), place(&c)];
    assert_eq!(places, [0, 12 * MIB, 28 * MIB]);
    drop((c, b, a));
    let first = rig.allocate(11 * MIB);
    let second = rig.allocate(11 * MIB);
    let third = rig.allocate(11 * MIB);
    assert_eq!([place(&first), place(&second), place(&third)], [0, 28 * MIB, 12 * MIB]);
    assert_eq!(rig.stats().num_device_alloc, 3);
}

#[test]
fn equal_blocks_are_taken_by_age_of_segment_or_by_address() {
    use c10_cuda::OrderOfEquals::{Address, Registration};
    for (order, expected) in [(Registration, 12 * MIB), (Address, 0)] {
        let config = Config { order_of_equals: order, ..Config::default() };
        let rig = Rig::with_config(SimConfig::with_bytes(GIB), config);
        let low = rig.allocate(12 * MIB);
        let high = rig.allocate(12 * MIB);
        drop(low);
        rig.cuda.empty_cache().unwrap();
        // The segment at the lowest address is now the younger one.
        let low = rig.allocate(12 * MIB);
        assert_eq!(place(&low), 0);
        drop((low, high));
        assert_eq!(place(&rig.allocate(12 * MIB)), expected, "{order:?}");
    }
}

#[test]
fn memory_goes_back_to_the_driver() {
    let rig = Rig::new(GIB);
    let blocks = [1, MIB, 3 * MIB, 30 * MIB].map(|bytes| rig.allocate(bytes));
    assert_eq!(rig.driver_used(), (2 + 20 + 30) * MIB);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 52 * MIB, "all segments are in use");
    drop(blocks);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
    let stats = rig.stats();
    assert_eq!(stats.segment.all, Stat { current: 0, peak: 3, allocated: 3, freed: 3 });
    assert_eq!((stats.num_device_alloc, stats.num_device_free, stats.num_sync_all_streams), (3, 3, 2));
    assert_eq!(stats.reserved_bytes.all.current, 0);
    assert_eq!(rig.memory_calls()[3..], ["-2097152", "-23068672", "-0"], "large ones first");
}

#[test]
fn the_allocator_gives_all_back_when_it_ends() {
    let Rig { sim, runtime, cuda, watch: _watch } = Rig::new(GIB);
    let held = cuda.allocate(3 * MIB).unwrap();
    drop(cuda.allocate(30 * MIB).unwrap());
    drop((cuda, runtime));
    assert_eq!(sim.memory_info(0).unwrap().free, GIB - 50 * MIB, "a block that is held keeps its device");
    drop(held);
    assert_eq!(sim.memory_info(0).unwrap().free, GIB);
}

#[test]
fn peaks_and_sums_are_reset_apart() {
    let rig = Rig::with(GIB, "max_split_size_mb:30");
    let big = rig.allocate(40 * MIB);
    drop(rig.allocate(100));
    drop(big);
    rig.cuda.empty_cache().unwrap();
    rig.cuda.allocate(2 * GIB).unwrap_err();
    let before = rig.stats();
    assert_eq!((before.num_ooms, before.num_alloc_retries, before.num_sync_all_streams), (1, 1, 2));
    assert_eq!(before.oversize_segments, Stat { current: 0, peak: 1, allocated: 1, freed: 1 });
    assert_eq!(before.oversize_allocations, Stat { current: 0, peak: 1, allocated: 1, freed: 1 });
    assert_eq!(before.max_split_size, 30 << 20);
    rig.cuda.reset_peak_stats(0).unwrap();
    let peaks = rig.stats();
    assert_eq!(peaks.reserved_bytes.all, Stat { peak: 0, ..before.reserved_bytes.all });
    assert_eq!(peaks.active.large, Stat { peak: 0, ..before.active.large });
    assert_eq!(peaks.oversize_allocations, Stat { peak: 0, ..before.oversize_allocations });
    assert_eq!(peaks.num_device_alloc, 2, "peaks alone are reset");
    rig.cuda.reset_accumulated_stats(0).unwrap();
    assert_eq!(rig.stats(), DeviceStats { max_split_size: 30 << 20, ..DeviceStats::default() });
}

#[test]
fn rejections_are_counted_until_they_are_reset() {
    let rig = Rig::with(GIB, "throw_on_cudamalloc_oom:True");
    rig.cuda.allocate(2 * GIB).unwrap_err();
    assert_eq!(rig.stats().num_oom_rejections, 1);
    rig.cuda.reset_peak_stats(0).unwrap();
    assert_eq!(rig.stats().num_oom_rejections, 1);
    rig.cuda.reset_accumulated_stats(0).unwrap();
    assert_eq!(rig.stats().num_oom_rejections, 0);
}

#[test]
fn what_is_held_survives_a_reset() {
    let rig = Rig::new(GIB);
    let held = rig.allocate(3 * MIB);
    rig.cuda.reset_accumulated_stats(0).unwrap();
    rig.cuda.reset_peak_stats(0).unwrap();
    let three = 3 << 20;
    assert_eq!(rig.stats().allocated_bytes.all, Stat { current: three, peak: three, allocated: 0, freed: 0 });
    assert_eq!(rig.cuda.max_memory_allocated(0).unwrap(), 3 * MIB);
    assert_eq!(rig.cuda.max_memory_reserved(0).unwrap(), 20 * MIB);
    drop(held);
    assert_eq!(rig.stats().allocated_bytes.all.freed, three);
}

#[test]
fn nothing_is_allocated_for_no_bytes() {
    let rig = Rig::new(GIB);
    let none = rig.allocate(0);
    assert!(none.is_null());
    assert_eq!(none.device(), Device::cuda(0));
    assert_eq!(rig.cuda.raw_alloc(0).unwrap(), DevicePtr::NULL);
    assert_eq!(rig.stats(), DeviceStats { max_split_size: -1, ..DeviceStats::default() });
    assert_eq!(rig.memory_calls(), Vec::<String>::new());
}

#[test]
fn the_current_device_is_allocated_on() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::default());
    rig.runtime.set_device(1).unwrap();
    let ptr = rig.allocate(MIB);
    assert_eq!(ptr.device(), Device::cuda(1));
    assert_eq!(address(&ptr), BASE + (1 << 47));
    assert_eq!(rig.cuda.device(), Device::cuda(1));
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 0);
    assert_eq!(rig.cuda.memory_allocated(1).unwrap(), MIB);
    let there = rig.cuda.allocate_on(MIB, Stream::default_of(DeviceType::Cuda, 0)).unwrap();
    assert_eq!(there.device(), Device::cuda(0));
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), MIB);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.cuda.device_stats(1).unwrap().num_sync_all_streams, 1, "every device's cache is emptied");
    assert_eq!(rig.cuda.device_stats(2).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_machine_without_devices_refuses() {
    let rig = Rig::with_config(SimConfig::with_devices(0, 0), Config::default());
    assert_eq!(rig.cuda.allocate(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rig.cuda.raw_alloc(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rig.runtime.set_device(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    rig.cuda.empty_cache().unwrap();
    assert!(rig.cuda.snapshot(true).segments.is_empty());
}

#[test]
fn a_block_leads_to_its_segment() {
    let rig = Rig::new(GIB);
    let _first = rig.allocate(3 * MIB);
    let second = rig.allocate(3 * MIB);
    assert_eq!(rig.cuda.base_allocation(&second).unwrap(), (DevicePtr(BASE), 20 * MIB));
    let host = c10_core::DataPtr::from_boxed_slice(vec![0; 8].into());
    assert_eq!(rig.cuda.base_allocation(&host).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_largest_block_that_could_be_had() {
    let rig = Rig::new(64 * MIB);
    assert_eq!(rig.cuda.cache_info(0).unwrap(), 64 * MIB);
    let _held = rig.allocate(3 * MIB);
    drop(rig.allocate(40 * MIB));
    assert_eq!(rig.cuda.cache_info(0).unwrap(), 40 * MIB);
}

#[test]
fn with_caching_off_the_driver_serves_every_request() {
    let config = Config::from_vars(|name| (name == "PYTORCH_NO_CUDA_MEMORY_CACHING").then(|| "1".to_owned()));
    let rig = Rig::with_config(SimConfig::with_bytes(64 * MIB), config.unwrap());
    assert!(!rig.cuda.is_enabled());
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, rig.stream()).unwrap();
    assert_eq!(rig.driver_used(), 4 * MIB);
    let error = rig.cuda.allocate(65 * MIB).unwrap_err();
    assert_eq!(error.out_of_memory().unwrap().device_free, 60 * MIB);
    assert_eq!(rig.cuda.allocate(1 << 60).unwrap_err().out_of_memory().unwrap().requested, 1 << 60);
    assert_eq!(rig.stats(), DeviceStats { max_split_size: -1, ..DeviceStats::default() });
    drop(ptr);
    assert_eq!(rig.driver_used(), 0);
    assert_eq!(rig.memory_calls(), ["+3145728", "!68157440", "-0"]);
    // Blocks of either kind may be held when it is switched.
    let uncached = rig.allocate(MIB);
    rig.cuda.enable(true);
    let cached = rig.allocate(MIB);
    rig.cuda.enable(false);
    drop((cached, uncached));
    assert_eq!(rig.reserved(), 2 * MIB);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn it_is_an_allocator_of_c10_core_without_raw_calls() {
    let rig = Rig::new(64 * MIB);
    let allocator: &dyn Allocator = &rig.cuda;
    let ptr = allocator.allocate(100).unwrap();
    assert!(!allocator.is_simple_data_ptr(&ptr), "the context leads to the block");
    assert!(allocator.raw_deleter().is_none());
    let error = allocator.raw_allocate(100).unwrap_err();
    assert_eq!(error.kind(), CoreErrorKind::NotImplemented);
    insta::assert_snapshot!(error, @r#"CachingAllocator { driver: "sim", devices: 1, .. } has no raw calls: its memory has a context of its own"#);
    let error = allocator.allocate(65 << 20).unwrap_err();
    assert_eq!(error.kind(), CoreErrorKind::OutOfMemory);
}

#[test]
fn handles_are_printed_in_one_line() {
    let rig = Rig::new(64 * MIB);
    let _held = rig.allocate(1);
    insta::assert_snapshot!(format!("{:?} {:?}", rig.cuda, rig.runtime), @r#"CachingAllocator { driver: "sim", devices: 1, .. } Runtime { driver: "sim", devices: 1, .. }"#);
}

#[test]
fn the_largest_divisions_round_to_the_next_power_of_two() {
    // 512 times the divisions would not fit 64 bits.
    let rig = Rig::with(64 * MIB, "roundup_power2_divisions:9223372036854775808");
    let _ptr = rig.allocate(5 * MIB + 1);
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 5 * MIB + 512, "no request is above that bound");
}
