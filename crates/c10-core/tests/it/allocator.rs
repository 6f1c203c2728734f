#![expect(unsafe_code, reason = "writes and reads the memory that allocators give out")]
//! One suite over every allocator and adaptor, and what each adds to it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use c10_core::allocator::{
    Allocator, CachingCpuAllocator, CachingCpuConfig, CountingAllocator, CpuAllocator, DeferredFreeAllocator,
    DeferredFreeConfig, Fault, FaultAllocator, HostAllocator, LimitAllocator,
};
use c10_core::data_ptr::{DeleterEntry, same_deleter};
use c10_core::{DataPtr, Device, ErrorKind, Result};
use proptest::prelude::*;

type Shared = Arc<dyn Allocator>;

fn cpu() -> Shared {
    Arc::new(CpuAllocator)
}

fn host() -> Shared {
    Arc::new(HostAllocator)
}

fn caching(max_cached_bytes: usize) -> Shared {
    Arc::new(CachingCpuAllocator::new(CachingCpuConfig { max_cached_bytes }))
}

fn deferred(inner: Shared) -> Shared {
    Arc::new(DeferredFreeAllocator::try_new(inner, DeferredFreeConfig::default()).unwrap())
}

fn limit(inner: Shared) -> Shared {
    Arc::new(LimitAllocator::new(inner, 1 << 40))
}

fn counting(inner: Shared) -> Shared {
    Arc::new(CountingAllocator::new(inner))
}

fn fault(inner: Shared) -> Shared {
    Arc::new(FaultAllocator::new(inner, []))
}

#[cfg(feature = "mapped")]
fn temp_file() -> Shared {
    use c10_core::allocator::{ConfinedRoot, TempFileAllocator};
    let root = ConfinedRoot::open(std::env::temp_dir()).unwrap();
    Arc::new(TempFileAllocator::new(Arc::new(root)))
}

/// Host memory with another device's label, to see what adaptors do with a device.
#[derive(Debug)]
struct FakeDevice {
    live: Arc<AtomicUsize>,
}

static FAKE_FREE: DeleterEntry = DeleterEntry::new("fake_device", fake_free);

struct FakeBlock {
    _memory: DataPtr,
    live: Arc<AtomicUsize>,
}

unsafe fn fake_free(context: *mut c_void) {
    // SAFETY: `FakeDevice::allocate` made the context from such a box.
    let block = unsafe { Box::from_raw(context.cast::<FakeBlock>()) };
    block.live.fetch_sub(1, SeqCst);
}

// SAFETY: the memory is the host allocator's, owned by the context.
unsafe impl Allocator for FakeDevice {
    fn device(&self) -> Device {
        Device::cuda(3)
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(self.device()));
        }
        let memory = CpuAllocator.allocate(bytes)?;
        self.live.fetch_add(1, SeqCst);
        let data = memory.as_ptr();
        let block = Box::new(FakeBlock { _memory: memory, live: Arc::clone(&self.live) });
        // SAFETY: the box owns the memory until `fake_free`.
        Ok(unsafe { DataPtr::new(data, Box::into_raw(block).cast(), &FAKE_FREE, self.device()) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { CpuAllocator.copy_data(dst, src, bytes) }
    }
}

fn fake() -> (Shared, Arc<AtomicUsize>) {
    let live = Arc::new(AtomicUsize::new(0));
    (Arc::new(FakeDevice { live: Arc::clone(&live) }), live)
}

fn deferred_device(inner: Shared) -> Shared {
    let config = DeferredFreeConfig { allow_devices: true, ..DeferredFreeConfig::default() };
    Arc::new(DeferredFreeAllocator::try_new(inner, config).unwrap())
}

/// Every allocator, every adaptor, and some towers of them, with the name of the owner's deleter.
fn every_allocator() -> Vec<(&'static str, Shared, &'static str)> {
    vec![
        ("cpu", cpu(), "cpu_allocator"),
        ("host", host(), "caching_cpu_allocator"),
        ("caching", caching(1 << 26), "caching_cpu_allocator"),
        ("caching nothing", caching(0), "caching_cpu_allocator"),
        ("caching little", caching(4096), "caching_cpu_allocator"),
        #[cfg(feature = "mapped")]
        ("temp file", temp_file(), "mapped_file"),
        ("deferred cpu", deferred(cpu()), "cpu_allocator"),
        ("deferred caching", deferred(caching(1 << 20)), "caching_cpu_allocator"),
        ("limit cpu", limit(cpu()), "cpu_allocator"),
        ("counting cpu", counting(cpu()), "cpu_allocator"),
        ("fault cpu", fault(cpu()), "cpu_allocator"),
        ("tower", limit(counting(deferred(fault(caching(1 << 20))))), "caching_cpu_allocator"),
        #[cfg(feature = "mapped")]
        ("other tower", deferred(fault(limit(deferred(counting(temp_file()))))), "mapped_file"),
        ("limit device", limit(fake().0), "fake_device"),
        ("device tower", fault(deferred_device(counting(limit(fake().0)))), "fake_device"),
    ]
}

/// Which bytes of a piece of memory are looked at: all of a small one, some and the last of a large one.
fn places(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(if bytes > 8192 { 509 } else { 1 }).chain([bytes - 1])
}

/// Fills memory with a pattern, to be checked when it is freed.
fn fill(ptr: &DataPtr, bytes: usize, seed: u8) {
    // SAFETY: the memory has that many bytes, and is this test's alone.
    let memory = unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), bytes) };
    places(bytes).for_each(|i| memory[i] = (i as u8).wrapping_mul(31) ^ seed);
}

fn check(ptr: &DataPtr, bytes: usize, seed: u8) {
    // SAFETY: as in `fill`.
    let memory = unsafe { std::slice::from_raw_parts(ptr.as_ptr(), bytes) };
    let wrong = places(bytes).find(|&i| memory[i] != (i as u8).wrapping_mul(31) ^ seed);
    assert_eq!(wrong, None, "a byte of {bytes} was changed by somebody else");
}

const SIZES: [usize; 14] = [1, 2, 63, 64, 65, 100, 512, 513, 4095, 4096, 4097, 65_536, 1_000_001, 3 << 20];

#[test]
fn no_bytes_is_null_on_the_right_device() {
    for (name, allocator, _) in every_allocator() {
        let ptr = allocator.allocate(0).unwrap();
        assert!(ptr.is_null(), "{name}");
        assert_eq!(ptr.device(), allocator.device(), "{name}");
    }
}

#[test]
fn memory_is_aligned_owned_and_apart() {
    for (name, allocator, owner) in every_allocator() {
        for round in 0..3_u8 {
            let mut live = Vec::new();
            for (i, &bytes) in SIZES.iter().chain(&SIZES).enumerate() {
                let ptr = allocator.allocate(bytes).unwrap();
                assert_eq!(ptr.as_ptr().addr() % 64, 0, "{name}: {bytes}");
                assert_eq!(ptr.device(), allocator.device(), "{name}");
                assert_eq!(ptr.root().deleter().name, owner, "{name}");
                fill(&ptr, bytes, i as u8 ^ round);
                live.push((ptr, bytes, i as u8 ^ round));
            }
            while !live.is_empty() {
                let (ptr, bytes, seed) = live.swap_remove(live.len() / 2);
                check(&ptr, bytes, seed);
            }
        }
    }
}

#[test]
fn fresh_host_memory_is_zero() {
    for allocator in [
        cpu(),
        caching(0),
        counting(cpu()),
        #[cfg(feature = "mapped")]
        temp_file(),
    ] {
        for bytes in SIZES {
            let ptr = allocator.allocate(bytes).unwrap();
            // SAFETY: the memory has that many bytes.
            let memory = unsafe { std::slice::from_raw_parts(ptr.as_ptr(), bytes) };
            assert!(places(bytes).all(|i| memory[i] == 0), "{allocator:?}: {bytes}");
            fill(&ptr, bytes, 0xaa);
        }
    }
}

#[test]
fn hostile_sizes_are_out_of_memory_with_the_number() {
    let most = isize::MAX as usize;
    for (name, allocator, _) in every_allocator() {
        for bytes in [usize::MAX, usize::MAX - 63, usize::MAX - 127, most + 1, most, most - 4096] {
            let error = allocator.allocate(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{name}: {error}");
            assert_eq!(error.requested_bytes(), Some(bytes as u64), "{name}");
        }
        let ptr = allocator.allocate(100).unwrap();
        fill(&ptr, 100, 1);
        check(&ptr, 100, 1);
    }
}

#[test]
fn clones_have_the_bytes() {
    for (name, allocator, _) in every_allocator() {
        for bytes in [0, 1, 100, 70_000] {
            let source = allocator.allocate(bytes).unwrap();
            if bytes > 0 {
                fill(&source, bytes, 9);
            }
            // SAFETY: the source has that many bytes.
            let copy = unsafe { allocator.clone_data(source.as_ptr(), bytes) }.unwrap();
            drop(source);
            if bytes > 0 {
                check(&copy, bytes, 9);
            } else {
                assert!(copy.is_null(), "{name}");
            }
        }
    }
}

#[test]
fn raw_calls_work_or_say_that_they_do_not() {
    let mut raw = Vec::new();
    for (name, allocator, _) in every_allocator() {
        let Some(deleter) = allocator.raw_deleter() else {
            assert_eq!(allocator.raw_allocate(8).unwrap_err().kind(), ErrorKind::NotImplemented);
            // SAFETY: nothing is freed by an allocator without raw calls.
            let error = unsafe { allocator.raw_deallocate(std::ptr::null_mut()) }.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotImplemented);
            continue;
        };
        raw.push(name);
        assert!(same_deleter(deleter, allocator.raw_deleter().unwrap()));
        let ptr = allocator.allocate(1000).unwrap();
        assert!(allocator.is_simple_data_ptr(&ptr) && same_deleter(ptr.deleter(), deleter));
        let address = allocator.raw_allocate(1000).unwrap();
        assert_ne!(address, ptr.as_ptr());
        // SAFETY: the address came from `raw_allocate` and has 1000 bytes.
        unsafe { address.write_bytes(7, 1000) };
        // SAFETY: it is not used again.
        unsafe { allocator.raw_deallocate(address) }.unwrap();
        assert!(allocator.raw_allocate(0).unwrap().is_null());
        // SAFETY: null is nothing.
        unsafe { allocator.raw_deallocate(std::ptr::null_mut()) }.unwrap();
        assert_eq!(allocator.raw_allocate(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    assert_eq!(raw, ["cpu", "host", "caching", "caching nothing", "caching little", "fault cpu"]);
}

#[test]
fn memory_outlives_its_allocator_and_its_thread() {
    for (_, allocator, _) in every_allocator() {
        let live: Vec<_> = (0..20)
            .map(|i| {
                let ptr = allocator.allocate(1000 + i).unwrap();
                fill(&ptr, 1000 + i, i as u8);
                ptr
            })
            .collect();
        drop(allocator);
        thread::spawn(move || {
            for (i, ptr) in live.into_iter().enumerate() {
                check(&ptr, 1000 + i, i as u8);
            }
        })
        .join()
        .unwrap();
    }
}

/// Numbers that look random: a fixed stream per seed.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }
}

#[test]
fn threads_allocate_free_and_pass_on() {
    let rounds = if cfg!(miri) { 20 } else { 300 };
    for (_, allocator, _) in every_allocator() {
        let (give, take) = mpsc::channel::<(DataPtr, usize, u8)>();
        let take = Arc::new(std::sync::Mutex::new(take));
        thread::scope(|scope| {
            for id in 0..4_u64 {
                let (give, take, allocator) = (give.clone(), Arc::clone(&take), &allocator);
                scope.spawn(move || {
                    let mut random = Mix(id);
                    let mut live = Vec::new();
                    for _ in 0..rounds {
                        let bytes = 1 + (random.next() % 5000) as usize;
                        let ptr = allocator.allocate(bytes).unwrap();
                        let seed = random.next() as u8;
                        fill(&ptr, bytes, seed);
                        match random.next() % 3 {
                            0 => give.send((ptr, bytes, seed)).unwrap(),
                            1 => live.push((ptr, bytes, seed)),
                            _ => check(&ptr, bytes, seed),
                        }
                        let passed_on = take.lock().unwrap().try_recv().ok();
                        if let Some((ptr, bytes, seed)) = passed_on {
                            check(&ptr, bytes, seed);
                        }
                        if random.next().is_multiple_of(4)
                            && let Some((ptr, bytes, seed)) = live.pop()
                        {
                            check(&ptr, bytes, seed);
                        }
                    }
                });
            }
            drop(give);
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Free(usize),
}

fn program() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![3 => 1_usize..2000, 1 => 2000_usize..200_000, 1 => Just(0_usize)];
    let step = prop_oneof![3 => size.prop_map(Step::Allocate), 2 => any::<usize>().prop_map(Step::Free)];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    /// Counts and bytes against a map of what is live.
    #[test]
    fn programs_agree_with_a_naive_model(program in program(), which in 0_usize..8) {
        let inner = match which {
            0 => cpu(),
            1 => caching(100_000),
            2 => caching(usize::MAX),
            3 => deferred(cpu()),
            4 => deferred(caching(0)),
            5 => fault(limit(cpu())),
            6 => host(),
            _ => deferred(limit(deferred(caching(50_000)))),
        };
        let counting = CountingAllocator::new(inner);
        let mut live: BTreeMap<usize, (DataPtr, usize)> = BTreeMap::new();
        let (mut peak, mut allocated, mut freed, mut number) = (0, 0, 0, 0_usize);
        for step in program {
            match step {
                Step::Allocate(bytes) => {
                    let ptr = counting.allocate(bytes).unwrap();
                    if bytes > 0 {
                        fill(&ptr, bytes, number as u8);
                        let end = ptr.as_ptr().addr() + bytes;
                        for (other, other_bytes) in live.values() {
                            let start = other.as_ptr().addr();
                            prop_assert!(end <= start || start + other_bytes <= ptr.as_ptr().addr());
                        }
                        live.insert(number, (ptr, bytes));
                        allocated += bytes;
                        number += 1;
                    }
                }
                Step::Free(index) if !live.is_empty() => {
                    let key = *live.keys().nth(index % live.len()).unwrap();
                    let (ptr, bytes) = live.remove(&key).unwrap();
                    check(&ptr, bytes, key as u8);
                    freed += bytes;
                }
                Step::Free(_) => {}
            }
            let current: usize = live.values().map(|(_, bytes)| bytes).sum();
            peak = peak.max(current);
            let counts = counting.counts();
            prop_assert_eq!(counts.bytes.current, current as i64);
            prop_assert_eq!(counts.bytes.peak, peak as i64);
            prop_assert_eq!((counts.bytes.allocated, counts.bytes.freed), (allocated as i64, freed as i64));
            prop_assert_eq!(counts.allocations.current, live.len() as i64);
        }
    }

    /// The caching allocator's books against its blocks.
    #[test]
    fn the_cache_stays_in_its_bound_and_its_books_balance(
        program in program(),
        max_cached_bytes in prop_oneof![Just(0_usize), 1_usize..300_000, Just(usize::MAX)],
    ) {
        let allocator = CachingCpuAllocator::new(CachingCpuConfig { max_cached_bytes });
        let mut live = Vec::new();
        for step in program {
            match step {
                Step::Allocate(0) => {}
                Step::Allocate(bytes) => live.push((allocator.allocate(bytes).unwrap(), bytes)),
                Step::Free(index) if !live.is_empty() => drop(live.swap_remove(index % live.len())),
                Step::Free(_) => allocator.empty_cache(),
            }
            let stats = allocator.stats();
            let requested: usize = live.iter().map(|(_, bytes)| bytes).sum();
            let cached = allocator.cached_bytes();
            prop_assert!(cached <= max_cached_bytes);
            prop_assert_eq!(stats.requested_bytes.all.current, requested as i64);
            prop_assert_eq!(stats.allocation.all.current, live.len() as i64);
            prop_assert_eq!(
                stats.reserved_bytes.all.current,
                stats.allocated_bytes.all.current + cached as i64
            );
            prop_assert!(stats.segment.all.current >= stats.allocation.all.current);
            prop_assert!(stats.allocated_bytes.all.current >= requested as i64);
            for array in [stats.allocation, stats.reserved_bytes] {
                prop_assert_eq!(array.all.current, array.small.current + array.large.current);
            }
        }
        drop(live);
        allocator.empty_cache();
        prop_assert_eq!(allocator.stats().reserved_bytes.all.current, 0);
        prop_assert_eq!(allocator.stats().segment.all.current, 0);
    }
}

#[test]
fn the_cache_gives_a_size_its_block_again() {
    let allocator = CachingCpuAllocator::default();
    let first = allocator.allocate(1000).unwrap();
    let address = first.as_ptr();
    fill(&first, 1000, 5);
    drop(first);
    assert_eq!(allocator.cached_bytes(), 1024);
    let again = allocator.allocate(990).unwrap();
    assert_eq!(again.as_ptr(), address, "one class, one block");
    check(&again, 990, 5);
    let other = allocator.allocate(1030).unwrap();
    assert_ne!(other.as_ptr(), address);
    let stats = allocator.stats();
    assert_eq!((stats.cache_hits, stats.segment.all.allocated), (1, 2));
    assert_eq!(stats.requested_bytes.all.current, 2020);
    assert_eq!(stats.allocated_bytes.all.current, 1024 + 1152);
    allocator.reset_peak_stats();
    allocator.reset_accumulated_stats();
    let stats = allocator.stats();
    assert_eq!((stats.cache_hits, stats.segment.all.allocated, stats.segment.all.peak), (0, 0, 2));
}

#[test]
fn the_cache_lets_go_of_sizes_not_asked_for_lately() {
    let allocator = CachingCpuAllocator::new(CachingCpuConfig { max_cached_bytes: 8192 });
    let old: Vec<_> = (0..4).map(|_| allocator.allocate(2048).unwrap()).collect();
    drop(old);
    assert_eq!(allocator.cached_bytes(), 8192);
    drop(allocator.allocate(4096).unwrap());
    assert_eq!((allocator.cached_bytes(), allocator.stats().evictions), (8192, 2));
    drop(allocator.allocate(10_000).unwrap());
    assert_eq!(allocator.cached_bytes(), 8192, "a block above the bound evicts nothing");
    let hits = allocator.stats().cache_hits;
    let _kept = allocator.allocate(4096).unwrap();
    assert_eq!(allocator.stats().cache_hits, hits + 1);
}

#[test]
fn the_limit_counts_what_is_live() {
    let allocator = LimitAllocator::new(cpu(), 1000);
    let a = allocator.allocate(600).unwrap();
    let error = allocator.allocate(401).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!((error.requested_bytes(), error.limit_bytes()), (Some(401), Some(1000)));
    insta::assert_snapshot!(
        error.to_string(),
        @"tried to allocate 401 bytes with 600 bytes in use under a limit of 1000 bytes"
    );
    let b = allocator.allocate(400).unwrap();
    assert_eq!(allocator.live_bytes(), 1000);
    assert!(allocator.allocate(1).is_err());
    assert!(allocator.allocate(0).unwrap().is_null());
    drop(a);
    assert_eq!(allocator.live_bytes(), 400);
    drop(allocator);
    check_len(&b, 400);
}

fn check_len(ptr: &DataPtr, bytes: usize) {
    fill(ptr, bytes, 3);
    check(ptr, bytes, 3);
}

#[test]
fn the_limit_gives_back_what_the_inner_allocator_refused() {
    let allocator = LimitAllocator::new(Arc::new(FaultAllocator::new(cpu(), [Fault::Nth(1)])), 100);
    assert_eq!(allocator.allocate(100).unwrap_err().limit_bytes(), None);
    assert_eq!(allocator.live_bytes(), 0);
    assert!(allocator.allocate(100).is_ok());
}

#[test]
fn the_limit_holds_among_threads() {
    let allocator = LimitAllocator::new(cpu(), 10_000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let held: Vec<_> = (0..5).filter_map(|_| allocator.allocate(700).ok()).collect();
                    assert!(allocator.live_bytes() <= 10_000);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(allocator.live_bytes(), 0);
}

#[test]
fn faults_follow_their_script() {
    let outcomes = |faults: Vec<Fault>| -> Vec<u64> {
        let allocator = FaultAllocator::new(cpu(), faults);
        (1..=10).filter(|n| allocator.allocate(*n as usize * 10).is_err()).collect()
    };
    assert_eq!(outcomes(vec![]), []);
    assert_eq!(outcomes(vec![Fault::Nth(3)]), [3]);
    assert_eq!(outcomes(vec![Fault::EveryNth(4)]), [4, 8]);
    assert_eq!(outcomes(vec![Fault::EveryNth(0)]), []);
    assert_eq!(outcomes(vec![Fault::Calls(vec![9, 2])]), [2, 9]);
    assert_eq!(outcomes(vec![Fault::LargerThan(80)]), [9, 10]);
    assert_eq!(outcomes(vec![Fault::FromNth(8)]), [8, 9, 10]);
    assert_eq!(outcomes(vec![Fault::Nth(1), Fault::FromNth(9)]), [1, 9, 10]);
}

#[test]
fn a_fault_is_out_of_memory_until_the_script_changes() {
    let allocator = FaultAllocator::new(cpu(), [Fault::FromNth(2)]);
    assert!(allocator.allocate(0).is_ok());
    assert!(allocator.allocate(1).is_ok());
    let error = allocator.allocate(77).unwrap_err();
    assert_eq!((error.kind(), error.requested_bytes()), (ErrorKind::OutOfMemory, Some(77)));
    insta::assert_snapshot!(
        error.to_string(),
        @"request 2, of 77 bytes, fails by the script of a fault injection"
    );
    assert_eq!((allocator.requests(), allocator.injected()), (2, 1));
    assert_eq!(allocator.raw_allocate(1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    allocator.reset([]);
    assert_eq!((allocator.requests(), allocator.injected()), (0, 0));
    assert!(allocator.allocate(77).is_ok());
}

#[test]
fn counts_see_failures_and_keep_counting_after_the_end() {
    let allocator = CountingAllocator::new(Arc::new(FaultAllocator::new(cpu(), [Fault::Nth(2)])));
    let a = allocator.allocate(10).unwrap();
    assert!(allocator.allocate(10).is_err());
    let b = allocator.allocate(30).unwrap();
    drop(a);
    let counts = allocator.counts();
    assert_eq!((counts.bytes.current, counts.bytes.peak, counts.bytes.allocated), (30, 40, 40));
    assert_eq!((counts.allocations.current, counts.allocations.freed, counts.failures), (1, 1, 1));
    allocator.reset_peak();
    assert_eq!(allocator.counts().bytes.peak, 30);
    drop(allocator);
    drop(b);
}

#[test]
fn adaptors_on_a_device_free_on_it() {
    let (device, live) = fake();
    let tower = fault(deferred_device(counting(limit(device))));
    let a = tower.allocate(10).unwrap();
    let b = tower.allocate(10).unwrap();
    assert_eq!((a.device(), live.load(SeqCst)), (Device::cuda(3), 2));
    drop(tower);
    drop((a, b));
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn out_of_memory_has_pytorchs_words() {
    let expected = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 18446744073709551615 bytes. \
                    Error code 12 (Cannot allocate memory)";
    for allocator in [cpu(), caching(100)] {
        assert_eq!(allocator.allocate(usize::MAX).unwrap_err().to_string(), expected);
    }
}

#[test]
fn caches_that_come_and_go_do_not_share_their_books() {
    let mut outlive = Vec::new();
    for round in 0..5_usize {
        let allocator = CachingCpuAllocator::new(CachingCpuConfig { max_cached_bytes: 4096 << round });
        assert_eq!(allocator.stats(), CachingCpuAllocator::default().stats(), "new books are empty");
        outlive.push(allocator.allocate(1000).unwrap());
        // One of an allocator that is gone comes back while this one lives.
        if round >= 2 {
            drop(outlive.remove(0));
        }
        assert_eq!(allocator.stats().allocation.all.current, 1, "round {round}");
        drop(allocator.allocate(500).unwrap());
        assert_eq!(allocator.stats().allocation.all.current, 1);
    }
}

#[test]
fn caches_end_on_many_threads_while_their_memory_lives_on() {
    let (give, take) = mpsc::channel::<(DataPtr, u8)>();
    thread::scope(|scope| {
        for id in 0..3_u8 {
            let give = give.clone();
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let allocator = CachingCpuAllocator::default();
                    for i in 0..4 {
                        let ptr = allocator.allocate(200).unwrap();
                        fill(&ptr, 200, id ^ round ^ i);
                        give.send((ptr, id ^ round ^ i)).unwrap();
                    }
                    drop(allocator.allocate(200).unwrap());
                }
            });
        }
        drop(give);
        scope.spawn(move || take.iter().for_each(|(ptr, seed)| check(&ptr, 200, seed)));
    });
}

/// Its counts are the process's, so that this looks at addresses and bytes alone.
#[test]
fn the_host_allocator_recycles_within_the_thread_and_across() {
    for bytes in [1_usize, 64, 65, 4096, 4097, 1 << 20, (1 << 20) + 1] {
        let first = host().allocate(bytes).unwrap();
        let address = first.as_ptr().addr();
        drop(first);
        let again = host().allocate(bytes).unwrap();
        if bytes <= 4096 {
            assert_eq!(again.as_ptr().addr(), address, "{bytes} bytes lie ready in the thread");
        }
        // Freed by another thread, which keeps it or not, and then ends.
        thread::spawn(move || drop(again)).join().unwrap();
        drop(host().allocate(bytes).unwrap());
    }
    assert!(host().allocate(usize::MAX).is_err());
    HostAllocator::empty_cache();
    drop(host().allocate(10).unwrap());
}

#[test]
fn a_thread_keeps_few_small_blocks_and_its_end_keeps_none() {
    thread::spawn(|| {
        let many: Vec<_> = (0..1000).map(|i| host().allocate(1 + i * 4).unwrap()).collect();
        let addresses: std::collections::BTreeSet<_> = many.iter().map(|ptr| ptr.as_ptr().addr()).collect();
        assert_eq!(addresses.len(), many.len());
        drop(many);
        // Lives longer than the thread's shelves.
        thread_local!(static LAST: std::cell::Cell<Option<DataPtr>> = const { std::cell::Cell::new(None) });
        LAST.set(Some(host().allocate(8).unwrap()));
    })
    .join()
    .unwrap();
}
