//! Allocators made of C functions.
#![expect(unsafe_code, reason = "the C functions of the tests, and frees of memory that nothing uses")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use c10_core::allocator::Allocator;
use c10_core::{DataPtr, Device};
use c10_cuda::alloc::{MemPool, MemPoolOptions, MempoolId};
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver};
use c10_cuda::pluggable::{PluggableAllocator, PluggableFunctions, PoolIdArgument};
use c10_cuda::{CachingAllocator, Config, ErrorKind, Runtime};

use crate::support::{MIB, fill};

/// The machine that the C functions know.
static SIM: LazyLock<Arc<SimDriver>> = LazyLock::new(|| SimDriver::new(SimConfig::with_devices(2, 64 * MIB)));
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Added to what `alloc` gives: memory that lies where a pool's must not.
static CROOKED: Mutex<usize> = Mutex::new(0);

fn log(line: String) {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

fn taken() -> Vec<String> {
    std::mem::take(&mut LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

fn crooked() -> usize {
    *CROOKED.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn alloc(bytes: usize, device: c_int, stream: *mut c_void) -> *mut c_void {
    log(format!("alloc {bytes} device {device} stream {}", stream.addr()));
    let given = SIM.malloc(device as u8, bytes as u64);
    given.map_or(std::ptr::null_mut(), |ptr| std::ptr::without_provenance_mut(ptr.0 as usize + crooked()))
}

unsafe extern "C" fn free(ptr: *mut c_void, bytes: usize, device: c_int, _: *mut c_void) {
    log(format!("free {bytes} device {device}"));
    // SAFETY: `alloc` gave the memory, and the allocator gives it back once.
    unsafe { SIM.free(DevicePtr((ptr.addr() - crooked()) as u64)) }.unwrap();
}

unsafe extern "C" fn init(devices: c_int) {
    log(format!("init {devices}"));
}

unsafe extern "C" fn reset() {
    log("reset".to_owned());
}

unsafe extern "C" fn memory_fraction(fraction: f64, device: c_int) {
    log(format!("fraction {fraction} device {device}"));
}

unsafe extern "C" fn base_alloc(ptr: *mut c_void, bytes: *mut usize) -> *mut c_void {
    // SAFETY: the caller gives a size to be written.
    unsafe { *bytes = 2 << 20 };
    ptr
}

unsafe extern "C" fn record_stream(_: *mut c_void, stream: *mut c_void) {
    log(format!("record {}", stream.addr()));
}

unsafe extern "C" fn begin(device: c_int, id: PoolIdArgument) {
    log(format!("begin {device} {} {}", id.first, id.second));
}

/// One test at a time knows the machine and the log.
struct Turn {
    plugged: PluggableAllocator,
    runtime: Runtime,
    _turn: MutexGuard<'static, ()>,
}

fn turn(functions: PluggableFunctions) -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    taken();
    let runtime = Runtime::new(Arc::clone(&*SIM) as Arc<dyn Driver>);
    // SAFETY: the functions give the machine's memory, and may be called from any thread.
    let plugged = unsafe { PluggableAllocator::new(runtime.clone(), functions) };
    Turn { plugged, runtime, _turn: turn }
}

fn two() -> PluggableFunctions {
    PluggableFunctions::new(alloc, free)
}

fn all() -> PluggableFunctions {
    let mut all = two();
    all.init = Some(init);
    all.reset = Some(reset);
    all.memory_fraction = Some(memory_fraction);
    all.base_alloc = Some(base_alloc);
    all.record_stream = Some(record_stream);
    all.begin_allocate_to_pool = Some(begin);
    all.end_allocate_to_pool = Some(begin);
    all.release_pool = Some(begin);
    all
}

#[test]
fn every_request_is_a_call_with_the_current_device_and_stream() {
    let Turn { plugged, runtime, _turn } = turn(two());
    runtime.set_device(1).unwrap();
    let ptr = plugged.allocate(1000).unwrap();
    assert_eq!((ptr.device(), plugged.name()), (Device::cuda(1), "pluggable"));
    fill(
        &**SIM,
        DevicePtr(ptr.as_ptr().addr() as u64),
        1,
        1000,
        c10_cuda::driver::StreamHandle::default_of(1),
    )
    .unwrap();
    runtime.set_device(0).unwrap();
    drop(ptr);
    assert!(plugged.allocate(0).unwrap().is_null());
    assert_eq!(taken(), ["alloc 1000 device 1 stream 0", "free 1000 device 1"]);
    assert_eq!(SIM.take_faults(), []);
}

#[test]
fn memory_outlives_the_allocator() {
    let Turn { plugged, runtime, _turn } = turn(two());
    let kept = plugged.allocate(64).unwrap();
    drop((plugged, runtime));
    drop(kept);
    assert_eq!(taken().len(), 2);
}

#[test]
fn an_unknown_address_is_an_error_and_no_call() {
    let Turn { plugged, runtime, _turn } = turn(two());
    let owned = plugged.allocate(64).unwrap();
    let raw = plugged.raw_alloc(64).unwrap();
    taken();
    // SAFETY: nobody uses the memory; what is not a raw call's is refused.
    let delete = |ptr| unsafe { plugged.raw_delete(ptr) };
    for wrong in [DevicePtr(8), raw.offset(1), DevicePtr(owned.as_ptr().addr() as u64)] {
        let error = delete(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.to_string(), "Trying to free a pointer not allocated here");
    }
    delete(DevicePtr::NULL).unwrap();
    delete(raw).unwrap();
    delete(raw).unwrap_err();
    assert_eq!(taken(), ["free 64 device 0"]);
    let foreign = DataPtr::from_boxed_slice(Box::new([0; 8]));
    let stream = runtime.current_stream(0).unwrap();
    assert_eq!(plugged.record_stream(&foreign, stream).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(plugged.live_blocks(), 1);
}

#[test]
fn a_lack_of_memory_is_out_of_memory() {
    let Turn { plugged, runtime: _runtime, _turn } = turn(two());
    for bytes in [65 * MIB, u64::MAX] {
        let error = plugged.allocate(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.out_of_memory().unwrap().requested, bytes);
    }
    assert_eq!(taken(), [format!("alloc {} device 0 stream 0", 65 * MIB)]);
    assert_eq!(plugged.live_blocks(), 0);
}

#[test]
fn the_other_functions_are_called_where_they_are_there() {
    let Turn { plugged, runtime, _turn } = turn(all());
    let (ptr, side) = (plugged.allocate(100).unwrap(), runtime.stream_from_pool(0, 0).unwrap());
    let at = DevicePtr(ptr.as_ptr().addr() as u64);
    taken();
    plugged.init();
    plugged.empty_cache();
    plugged.set_memory_fraction(0.5, 1).unwrap();
    plugged.record_stream(&ptr, side).unwrap();
    for call in [
        PluggableAllocator::begin_allocate_to_pool,
        PluggableAllocator::end_allocate_to_pool,
        PluggableAllocator::release_pool,
    ] {
        call(&plugged, 1, MempoolId::new(3, 4)).unwrap();
        assert_eq!(call(&plugged, 2, MempoolId::new(3, 4)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let raw = runtime.handle(side).unwrap().raw;
    let record = format!("record {raw}");
    let begin = "begin 1 3 4";
    assert_eq!(taken(), ["init 2", "reset", "fraction 0.5 device 1", &record, begin, begin, begin]);
    assert_eq!(plugged.base_allocation(&ptr).unwrap(), (at, 2 * MIB));
    let foreign = DataPtr::null(Device::cuda(0));
    assert_eq!(plugged.base_allocation(&foreign).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(plugged.set_memory_fraction(1.5, 0).is_err() && plugged.set_memory_fraction(0.5, 7).is_err());
    let error = plugged.unsupported::<()>("getDeviceStats").unwrap_err();
    insta::assert_snapshot!(error, @"CUDAPluggableAllocator does not yet support getDeviceStats. If you need it, please file an issue describing your use case.");
}

#[test]
fn without_them_nothing_happens() {
    let Turn { plugged, runtime, _turn } = turn(two());
    let ptr = plugged.allocate(100).unwrap();
    let at = DevicePtr(ptr.as_ptr().addr() as u64);
    taken();
    plugged.init();
    plugged.empty_cache();
    plugged.record_stream(&ptr, runtime.stream_from_pool(0, 0).unwrap()).unwrap();
    plugged.release_pool(0, MempoolId::new(0, 1)).unwrap();
    assert_eq!(taken(), [""; 0]);
    assert_eq!(plugged.base_allocation(&ptr).unwrap(), (at, 100));
}

#[test]
fn it_serves_as_c10s_allocator() {
    let Turn { plugged, runtime: _runtime, _turn } = turn(two());
    let allocator: Arc<dyn Allocator> = Arc::new(plugged);
    let ptr = allocator.allocate(64).unwrap();
    assert_eq!((ptr.device(), allocator.device()), (Device::cuda(0), Device::cuda(0)));
    assert!(!allocator.is_simple_data_ptr(&ptr));
    // SAFETY: the memory is live and this long.
    drop(unsafe { allocator.clone_data(ptr.as_ptr(), 64) }.unwrap());
}

#[test]
fn a_pool_takes_its_segments_from_the_functions() {
    let Turn { plugged, runtime, _turn } = turn(two());
    let cuda = CachingAllocator::with_runtime(runtime, Config::default()).unwrap();
    let options = MemPoolOptions { allocator: Some(Arc::new(plugged)), ..MemPoolOptions::default() };
    let pool = MemPool::new(&cuda, 0, options).unwrap();
    let inside = pool.with(|| cuda.allocate(3 * MIB).unwrap()).unwrap();
    let segment = 20 * MIB;
    assert_eq!(taken(), [format!("alloc {segment} device 0 stream 0")]);
    drop((inside, pool));
    assert_eq!(taken(), [format!("free {segment} device 0")]);
}

#[test]
fn what_lies_crooked_is_no_segment() {
    let Turn { plugged, runtime, _turn } = turn(two());
    let cuda = CachingAllocator::with_runtime(runtime, Config::default()).unwrap();
    let options = MemPoolOptions { allocator: Some(Arc::new(plugged)), ..MemPoolOptions::default() };
    let pool = MemPool::new(&cuda, 0, options).unwrap();
    *CROOKED.lock().unwrap() = 8;
    let refused = pool.with(|| cuda.allocate(3 * MIB)).unwrap();
    let lines = taken();
    *CROOKED.lock().unwrap() = 0;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfMemory);
    let (allocs, frees): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("alloc"));
    assert_eq!(allocs.len(), frees.len(), "each is given back: {lines:?}");
}

/// Gives the same memory again and again.
static SAME: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn same(_: usize, _: c_int, _: *mut c_void) -> *mut c_void {
    std::ptr::without_provenance_mut(SAME.load(Ordering::Relaxed) as usize)
}

#[test]
fn memory_that_is_given_twice_is_no_segment() {
    let Turn { runtime, _turn, .. } = turn(two());
    let memory = runtime.driver().malloc(0, 40 * MIB).unwrap();
    SAME.store(memory.0, Ordering::Relaxed);
    // SAFETY: the functions may be called; that one gives its memory twice is what is to be found.
    let plugged = unsafe { PluggableAllocator::new(runtime.clone(), PluggableFunctions::new(same, leave)) };
    let cuda = CachingAllocator::with_runtime(runtime, Config::default()).unwrap();
    let options = MemPoolOptions { allocator: Some(Arc::new(plugged.clone())), ..MemPoolOptions::default() };
    let pool = MemPool::new(&cuda, 0, options).unwrap();
    let first = pool.with(|| cuda.allocate(20 * MIB).unwrap()).unwrap();
    assert_eq!(plugged.live_blocks(), 1);
    let again = pool.with(|| cuda.allocate(20 * MIB)).unwrap().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::OutOfMemory, "there is no other memory");
    assert_eq!(plugged.raw_alloc(100).unwrap_err().kind(), ErrorKind::InvalidArgument, "nor for others");
    // Within it is as bad.
    SAME.store(memory.0 + 512, Ordering::Relaxed);
    assert!(pool.with(|| cuda.allocate(20 * MIB)).unwrap().is_err());
    drop(first);
    cuda.empty_cache().unwrap();
    drop(pool);
    assert_eq!(plugged.live_blocks(), 0);
    plugged.raw_alloc(100).unwrap();
    // SAFETY: nothing uses it.
    unsafe { SIM.free(memory) }.unwrap();
}

unsafe extern "C" fn leave(_: *mut c_void, _: usize, _: c_int, _: *mut c_void) {}
