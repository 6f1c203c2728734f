//! Out of memory: the ladder down to it, its text and numbers, who is told, and what comes after.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use c10_core::{DataPtr, Device};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, FaultWhen, SimConfig};
use c10_cuda::driver::{Driver, Status};
use c10_cuda::{Config, Error, ErrorKind, OutOfMemory};

use crate::rig::{GIB, MIB, Rig, place};

/// PyTorch's text without the hint that ends it.
fn head(error: &Error) -> String {
    let text = error.to_string();
    text.split(" If reserved").next().unwrap().to_owned()
}

#[test]
fn the_text_is_pytorchs() {
    let rig = Rig::new(64 * MIB);
    let _held = rig.allocate(3 * MIB);
    let error = rig.cuda.allocate(60 * MIB).unwrap_err();
    insta::assert_snapshot!(error, @"CUDA out of memory. Tried to allocate 60.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 44.00 MiB is free. Of the allocated memory 3.00 MiB is allocated by PyTorch, and 17.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)");
    assert_eq!(
        error.out_of_memory(),
        Some(&OutOfMemory {
            private: 0,
            device: 0,
            requested: 60 * MIB,
            tried: 60 * MIB,
            device_total: 64 * MIB,
            device_free: 44 * MIB,
            allowed: None,
            allocated: 3 * MIB,
            reserved: 20 * MIB,
        })
    );
    assert!(error.driver().is_none());
    let core = c10_core::Error::from(error);
    assert_eq!((core.kind(), core.requested_bytes()), (c10_core::ErrorKind::OutOfMemory, Some(60 * MIB)));
}

#[test]
fn the_text_names_the_limit_and_the_segment() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.set_memory_fraction(0.25, 0).unwrap();
    let error = rig.cuda.allocate(3 * MIB - 1).unwrap_err();
    insta::assert_snapshot!(head(&error), @"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 64.00 MiB is free. 16.00 MiB allowed; Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.");
    let numbers = *error.out_of_memory().unwrap();
    assert_eq!((numbers.requested, numbers.tried), (3 * MIB - 1, 20 * MIB));
    assert_eq!((numbers.allowed, numbers.device_free), (Some(16 * MIB), 64 * MIB));
    assert_eq!(rig.memory_calls(), Vec::<String>::new(), "the driver is not asked beyond the limit");
    let stats = rig.stats();
    assert_eq!((stats.num_ooms, stats.num_alloc_retries, stats.num_sync_all_streams), (1, 1, 1));
}

#[test]
fn the_allocator_is_usable_at_once() {
    let rig = Rig::new(64 * MIB);
    for _ in 0..3 {
        rig.cuda.allocate(65 * MIB).unwrap_err();
        let ptr = rig.allocate(30 * MIB);
        assert_eq!(place(&ptr), 0);
    }
    let stats = rig.stats();
    assert_eq!((stats.num_ooms, stats.num_alloc_retries), (3, 3));
    // The second and the third failure have given the cached segment back first.
    assert_eq!(stats.num_device_free, 2);
}

#[test]
fn a_request_beyond_one_exabyte_is_refused_outright() {
    let rig = Rig::new(64 * MIB);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    rig.cuda.attach_out_of_memory_observer(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    for bytes in [1 << 60, u64::MAX] {
        let error = rig.cuda.allocate(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.out_of_memory().unwrap().requested, bytes);
        assert_eq!(error.to_string(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    assert_eq!((rig.stats().num_ooms, told.load(Ordering::Relaxed)), (0, 0));
    // One byte less is a request like any other.
    let error = rig.cuda.allocate((1 << 60) - 1).unwrap_err();
    assert_eq!(error.out_of_memory().unwrap().tried, 1 << 60);
    assert_eq!((rig.stats().num_ooms, told.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn observers_are_told_the_numbers_and_may_use_the_allocator() {
    let rig = Rig::new(64 * MIB);
    let spare = Arc::new(Mutex::new(Some(rig.allocate(30 * MIB))));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (cuda, keep, list) = (rig.cuda.clone(), Arc::clone(&spare), Arc::clone(&seen));
    rig.cuda.attach_out_of_memory_observer(Arc::new(move |numbers| {
        keep.lock().unwrap().take();
        let small = cuda.allocate(100).unwrap();
        // Out of memory once more: an observer hears nothing of its own.
        cuda.allocate(GIB).unwrap_err();
        let used = cuda.memory_allocated(0).unwrap();
        drop(small);
        list.lock().unwrap().push((*numbers, used));
    }));
    let error = rig.cuda.allocate(60 * MIB).unwrap_err();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen, [(*error.out_of_memory().unwrap(), 512)]);
    assert_eq!(error.out_of_memory().unwrap().allocated, 30 * MIB);
    assert_eq!(rig.stats().num_ooms, 2);
    rig.allocate(60 * MIB);
}

#[test]
fn a_panicking_observer_leaves_the_allocator_whole() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.attach_out_of_memory_observer(Arc::new(|_| panic!("an observer's fault")));
    rig.cuda.register_free_memory_callback(Arc::new(|| panic!("a callback's fault")));
    for bytes in [MIB, GIB] {
        let cuda = rig.cuda.clone();
        assert!(std::thread::spawn(move || cuda.allocate(bytes)).join().is_err());
        rig.cuda.check_invariants();
    }
    assert_eq!(rig.stats().reserved_bytes.all.current, 0);
}

#[test]
fn callbacks_that_free_memory_are_asked_before_the_driver() {
    let rig = Rig::new(64 * MIB);
    let cache: Arc<Mutex<Vec<DataPtr>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let (cache, calls) = (Arc::clone(&cache), Arc::clone(&calls));
        rig.cuda.register_free_memory_callback(Arc::new(move || {
            calls.fetch_add(1, Ordering::Relaxed);
            cache.lock().unwrap().pop().is_some()
        }));
    }
    let spare = rig.allocate(30 * MIB);
    cache.lock().unwrap().push(spare);
    assert_eq!(calls.swap(0, Ordering::Relaxed), 2, "there was no free block");
    rig.memory_calls();
    let ptr = rig.allocate(30 * MIB);
    assert_eq!(calls.swap(0, Ordering::Relaxed), 2, "all are asked");
    assert_eq!(rig.memory_calls(), Vec::<String>::new(), "what was freed is used");
    drop(ptr);
    rig.allocate(30 * MIB);
    assert_eq!(calls.load(Ordering::Relaxed), 0, "a free block was there");
}

#[test]
fn a_callback_that_allocates_does_not_call_itself() {
    let rig = Rig::new(64 * MIB);
    let cuda = rig.cuda.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    rig.cuda.register_free_memory_callback(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        cuda.allocate(5 * MIB).is_ok()
    }));
    let _ptr = rig.allocate(MIB);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    drop(rig.allocate(60 * MIB));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn cached_segments_go_back_when_memory_is_short() {
    let rig = Rig::new(64 * MIB);
    drop([12, 14, 16].map(|mib| rig.allocate(mib * MIB)));
    drop(rig.allocate(100));
    rig.memory_calls();
    rig.allocate(40 * MIB);
    let large_first = ["!41943040", "-0", "-12582912", "-27262976", "-44040192", "+41943040"];
    assert_eq!(rig.memory_calls(), large_first);
    let stats = rig.stats();
    assert_eq!((stats.num_alloc_retries, stats.num_ooms, stats.num_sync_all_streams), (1, 0, 1));
}

#[test]
fn a_driver_that_fails_otherwise_is_no_shortage() {
    let rig = Rig::new(64 * MIB);
    drop(rig.allocate(30 * MIB));
    rig.sim.set_faults(FaultPlan::from(FaultRule::nth("malloc", 1, Status::Other(719))));
    let error = rig.cuda.allocate(40 * MIB).unwrap_err();
    assert_eq!((error.kind(), error.driver().unwrap().status), (ErrorKind::Driver, Status::Other(719)));
    insta::assert_snapshot!(error, @"malloc failed on device 0: driver error 719");
    let stats = rig.stats();
    assert_eq!((stats.num_alloc_retries, stats.num_ooms, rig.reserved()), (0, 0, 30 * MIB));
}

#[test]
fn row_14_a_caught_shortage_does_not_leak_into_the_next_call() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.allocate(GIB).unwrap_err();
    let stream = rig.handle(rig.stream());
    let event = rig.sim.event_create(0, Default::default()).unwrap();
    rig.sim.event_record(event, stream).unwrap();
    rig.sim.device_synchronize(0).unwrap();
    assert!(rig.sim.event_query(event).unwrap());
    assert_eq!(rig.cuda.take_free_error(0).unwrap(), None);
}

#[test]
fn row_16_the_numbers_of_a_shortage_add_up() {
    let rig = Rig::new(64 * MIB);
    let _live = rig.allocate(5 * MIB);
    drop(rig.allocate(2 * MIB));
    let elsewhere = rig.sim.malloc(0, 10 * MIB).unwrap();
    rig.cuda.set_memory_fraction(0.75, 0).unwrap();
    let error = rig.cuda.allocate(40 * MIB).unwrap_err();
    let numbers = *error.out_of_memory().unwrap();
    assert_eq!(numbers.allocated, 5 * MIB);
    assert_eq!(numbers.reserved, 20 * MIB, "5 live, 15 cached");
    assert_eq!(numbers.allowed, Some(48 * MIB));
    assert_eq!(
        numbers.device_total - numbers.device_free - numbers.reserved,
        10 * MIB,
        "not the allocator's"
    );
    insta::assert_snapshot!(head(&error), @"CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 34.00 MiB is free. 48.00 MiB allowed; Of the allocated memory 5.00 MiB is allocated by PyTorch, and 15.00 MiB is reserved by PyTorch but unallocated.");
    assert_ne!(elsewhere.0, 0);
}

#[test]
fn row_35_a_cap_counts_the_allocators_bytes_alone() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.set_memory_fraction(0.5, 0).unwrap();
    rig.sim.malloc(0, 20 * MIB).unwrap();
    let _held = rig.allocate(32 * MIB);
    let info = rig.cuda.mem_get_info(0).unwrap();
    assert_eq!((info.total - info.free) - rig.reserved(), 20 * MIB);
    assert_eq!(rig.cuda.allocate(1).unwrap_err().out_of_memory().unwrap().allowed, Some(32 * MIB));
}

#[test]
fn a_fraction_is_in_0_to_1() {
    let rig = Rig::new(64 * MIB);
    for wrong in [f64::NAN, -0.1, 1.1, f64::INFINITY, f64::NEG_INFINITY] {
        let error = rig.cuda.set_memory_fraction(wrong, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(rig.cuda.memory_fraction(0).unwrap(), 1.0);
    }
    insta::assert_snapshot!(rig.cuda.set_memory_fraction(2.5, 0).unwrap_err(), @"invalid fraction:2.5. Please set within [0, 1].");
    assert_eq!(rig.cuda.set_memory_fraction(0.5, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    rig.cuda.set_memory_fraction(0.0, 0).unwrap();
    assert_eq!(rig.cuda.allocate(1).unwrap_err().out_of_memory().unwrap().allowed, Some(0));
    rig.cuda.set_memory_fraction(1.0, 0).unwrap();
    rig.allocate(64 * MIB);
}

#[test]
fn a_cap_below_what_is_held_bites_at_the_next_request() {
    let rig = Rig::new(64 * MIB);
    let held = rig.allocate(40 * MIB);
    drop(rig.allocate(20 * MIB));
    rig.cuda.set_memory_fraction(0.5, 0).unwrap();
    assert_eq!(rig.reserved(), 60 * MIB, "what is held stays");
    let cached = rig.allocate(20 * MIB);
    assert_eq!(place(&cached), 40 * MIB, "and what is cached serves");
    rig.cuda.allocate(20 * MIB).unwrap_err();
    drop(cached);
    rig.cuda.allocate(21 * MIB).unwrap_err();
    assert_eq!(rig.reserved(), 40 * MIB, "a shortage gives the cached segment back");
    drop(held);
    rig.allocate(32 * MIB);
}

#[test]
fn a_policy_can_reject_before_the_driver_is_asked() {
    let rig = Rig::with(64 * MIB, "throw_on_cudamalloc_oom:True");
    let cached = rig.allocate(30 * MIB);
    drop(cached);
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    rig.cuda.attach_out_of_memory_observer(Arc::new(move |numbers| list.lock().unwrap().push(*numbers)));
    rig.memory_calls();
    let error = rig.cuda.allocate(40 * MIB).unwrap_err();
    insta::assert_snapshot!(error, @"CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 40.00 MiB");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(*told.lock().unwrap(), [*error.out_of_memory().unwrap()]);
    assert_eq!(rig.memory_calls(), Vec::<String>::new(), "nothing cached is given back");
    let stats = rig.stats();
    assert_eq!((stats.num_oom_rejections, stats.num_ooms, stats.num_alloc_retries), (1, 0, 0));
    assert_eq!(rig.reserved(), 30 * MIB);
    rig.allocate(34 * MIB);
}

#[test]
fn row_1_what_a_wait_frees_is_used_before_the_driver_is_asked() {
    for (search, allocs, ooms) in [(true, 1, 0), (false, 2, 0)] {
        let config = Config { search_after_synchronize: search, ..Config::default() };
        let rig = Rig::with_config(SimConfig::with_bytes(100 * MIB), config);
        let ptr = rig.allocate(60 * MIB);
        rig.cuda.record_stream(&ptr, rig.stream()).unwrap();
        drop(ptr);
        rig.allocate(60 * MIB);
        let stats = rig.stats();
        assert_eq!((stats.num_device_alloc, stats.num_ooms), (allocs, ooms), "search: {search}");
        assert_eq!(stats.num_sync_all_streams, 1);
    }
}

#[test]
fn row_2_several_segments_of_the_split_limit_make_room() {
    let rig = Rig::with(130 * MIB, "max_split_size_mb:20");
    drop([30, 30, 30, 30].map(|mib| rig.allocate(mib * MIB)));
    rig.memory_calls();
    let _ptr = rig.allocate(110 * MIB);
    assert_eq!(
        rig.memory_calls(),
        ["!115343360", "-94371840", "-62914560", "-31457280", "-0", "+115343360"],
        "the last of the set first, as many as are needed"
    );
    let stats = rig.stats();
    assert_eq!(stats.oversize_segments.current, 1);
    assert_eq!(stats.oversize_segments.freed, 4);
    assert_eq!((stats.num_alloc_retries, stats.num_sync_all_streams), (0, 0), "this rung sufficed");
    assert_eq!(stats.reserved_bytes.all.freed, 120 << 20);
    // Two of them are just enough, and no third goes.
    let rig = Rig::with(130 * MIB, "max_split_size_mb:20");
    drop([30, 30, 30, 30].map(|mib| rig.allocate(mib * MIB)));
    rig.memory_calls();
    let _ptr = rig.allocate(60 * MIB);
    assert_eq!(rig.memory_calls(), ["!62914560", "-94371840", "-62914560", "+62914560"]);
}

#[test]
fn one_segment_that_is_large_enough_makes_room() {
    let rig = Rig::with(130 * MIB, "max_split_size_mb:20");
    drop([70, 30].map(|mib| rig.allocate(mib * MIB)));
    rig.memory_calls();
    // It is too large to serve the request, and goes alone.
    let _ptr = rig.allocate(40 * MIB);
    assert_eq!(rig.memory_calls(), ["!41943040", "-0", "+41943040"]);
    // Segments below the split limit do not go on this rung.
    let rig = Rig::with(100 * MIB, "max_split_size_mb:20");
    drop([18, 18, 30].map(|mib| rig.allocate(mib * MIB)));
    rig.memory_calls();
    let _ptr = rig.allocate(68 * MIB);
    assert_eq!(rig.memory_calls(), ["!71303168", "-37748736", "-0", "-18874368", "+71303168"]);
    assert_eq!(rig.stats().num_alloc_retries, 1);
}

#[test]
fn row_34_a_large_block_is_not_spent_on_a_middling_request() {
    for (settings, reserved) in [("max_split_size_mb:20", 800), ("", 1060)] {
        let rig = Rig::with(4 * GIB, settings);
        drop(rig.allocate(530 * MIB));
        let _kept = rig.allocate(270 * MIB);
        let _again = rig.allocate(530 * MIB);
        assert_eq!(rig.reserved(), reserved * MIB, "{settings}");
    }
}

#[test]
fn row_25_order_decides_what_is_reserved() {
    for (first, second) in [((8, 16), (4, 32)), ((4, 32), (8, 16))] {
        let rig = Rig::new(4 * GIB);
        let take =
            |(count, mib): (u64, u64)| -> Vec<_> { (0..count).map(|_| rig.allocate(mib * MIB)).collect() };
        drop(take(first));
        let _held = take(second);
        let expected = if first.1 < second.1 { 256 } else { 128 };
        assert_eq!(rig.reserved(), expected * MIB);
    }
}

#[test]
fn row_17_a_division_of_1_does_not_round_as_in_pytorch() {
    for (divisions, mib) in [(1, 514), (2, 768)] {
        let rig = Rig::with(4 * GIB, &format!("roundup_power2_divisions:{divisions}"));
        let _ptr = rig.allocate(514 * MIB);
        assert_eq!(rig.cuda.memory_allocated(0).unwrap(), mib * MIB);
    }
}

#[test]
fn old_blocks_are_collected_above_the_threshold() {
    let rig = Rig::with(100 * MIB, "garbage_collection_threshold:0.5");
    drop(rig.allocate(20 * MIB));
    drop([30, 28].map(|mib| rig.allocate(mib * MIB)));
    rig.memory_calls();
    let _a = rig.allocate(20 * MIB - 512);
    assert_eq!(rig.memory_calls(), Vec::<String>::new(), "without a limit nothing is collected");
    rig.cuda.set_memory_fraction(0.9, 0).unwrap();
    // 78 MiB are above 45: the two old segments go, whichever is the older.
    let _b = rig.allocate(31 * MIB);
    assert_eq!(rig.memory_calls(), ["-52428800", "-20971520", "+33554432"]);
    assert_eq!(rig.stats().num_sync_all_streams, 0);
    assert_eq!(rig.stats().num_alloc_retries, 0);
}

#[test]
fn the_oldest_blocks_are_collected_first() {
    let rig = Rig::with(100 * MIB, "garbage_collection_threshold:0.3");
    rig.cuda.set_memory_fraction(0.95, 0).unwrap();
    let (old, mut young) = (rig.allocate(20 * MIB), rig.allocate(24 * MIB));
    drop(old);
    // Each search of the pool makes the free blocks older, and the one that is found begins anew.
    for _ in 0..3 {
        drop(young);
        young = rig.allocate(24 * MIB);
    }
    drop(young);
    let snapshot = rig.cuda.snapshot(false);
    let age = |at: usize| snapshot.segments[at].blocks[0].gc_counter;
    assert_eq!([age(0), age(1)], [3, 0]);
    rig.memory_calls();
    let _new = rig.allocate(30 * MIB);
    assert_eq!(rig.memory_calls()[0], "-0", "the one that has been free for longer");
}

#[test]
fn faults_by_amount_are_a_shortage_like_any_other() {
    let rule = FaultRule::new("malloc", FaultWhen::AboveBytes(30 * MIB), Status::OutOfMemory);
    let rig = Rig::with_config(SimConfig::with_bytes(GIB).faults(rule.into()), Config::default());
    let _held = rig.allocate(20 * MIB);
    let error = rig.cuda.allocate(20 * MIB).unwrap_err();
    assert_eq!(error.out_of_memory().unwrap().device_free, GIB - 20 * MIB);
}

#[test]
fn observers_of_the_process_hear_of_blocks_and_shortages() {
    use c10_core::reporting::{MemoryEvent, MemoryObserver, OutOfMemoryEvent, attach};
    // Tests run beside each other: this device is told apart by its index.
    const DEVICE: u8 = 17;
    #[derive(Default)]
    struct Ears(Mutex<Vec<(i64, u64, u64)>>);
    impl MemoryObserver for Ears {
        fn on_memory(&self, event: &MemoryEvent) {
            if event.device == Device::cuda(DEVICE) {
                let heard = (event.bytes, event.total_allocated, event.total_reserved);
                self.0.lock().unwrap().push(heard);
            }
        }
        fn on_out_of_memory(&self, event: &OutOfMemoryEvent) {
            if event.device == Device::cuda(DEVICE) {
                let heard = (0, event.total_allocated, event.requested);
                self.0.lock().unwrap().push(heard);
            }
        }
    }
    let rig = Rig::with_config(SimConfig::with_devices(18, 64 * MIB), Config::default());
    rig.runtime.set_device(DEVICE).unwrap();
    let ears = Arc::new(Ears::default());
    let _attached = attach(Arc::clone(&ears) as Arc<dyn MemoryObserver>);
    let ptr = rig.allocate(100);
    rig.cuda.allocate(GIB).unwrap_err();
    drop(ptr);
    let heard = [(512, 512, 2 * MIB), (0, 512, GIB), (-512, 0, 2 * MIB)];
    assert_eq!(*ears.0.lock().unwrap(), heard);
}
