#![expect(unsafe_code, reason = "lends streams that live until they are taken back")]
//! Streams that somebody else made: cudarc's.

use c10_cuda::driver::{EventFlags, Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, Runtime};
use cudarc::driver::CudaContext;

use super::RealRig;
use crate::support::{fill, free, read};

#[test]
fn a_stream_that_nobody_adopted_is_refused() {
    let Some(rig) = RealRig::new(1) else { return };
    let context = CudaContext::new(0).unwrap();
    let theirs = context.new_stream().unwrap();
    let stream = StreamHandle { device: 0, raw: theirs.cu_stream() as u64 };
    let status = |result: Result<_, c10_cuda::driver::DriverError>| result.err().map(|error| error.status);
    assert_eq!(status(rig.stream_query(stream).map(drop)), Some(Status::InvalidHandle));
    assert_eq!(status(rig.stream_disown(stream)), Some(Status::InvalidHandle));
    for _ in 0..2 {
        // SAFETY: the stream is live, of the primary context, and ends behind the last use here.
        unsafe { rig.stream_adopt(stream) }.unwrap();
    }
    assert_eq!(status(rig.stream_query(stream).map(drop)), None);
    assert_eq!(status(rig.stream_destroy(stream)), Some(Status::InvalidHandle), "it is theirs to end");
    rig.stream_disown(stream).unwrap();
    assert_eq!(status(rig.stream_query(stream).map(drop)), None, "it was adopted twice");
    rig.stream_disown(stream).unwrap();
    assert_eq!(status(rig.stream_query(stream).map(drop)), Some(Status::InvalidHandle));
    // A stream of the driver's own stays its own, and a default stream is there anyway.
    let own = rig.stream_create(0, 0).unwrap();
    for stream in [own, StreamHandle::default_of(0), StreamHandle::per_thread_default(0)] {
        // SAFETY: the streams are live.
        unsafe { rig.stream_adopt(stream) }.unwrap();
        rig.stream_disown(stream).unwrap();
        rig.stream_synchronize(stream).unwrap();
    }
    rig.stream_destroy(own).unwrap();
    let elsewhere = StreamHandle { device: rig.device_count(), ..own };
    // SAFETY: it is refused before it is looked at.
    assert_eq!(status(unsafe { rig.stream_adopt(elsewhere) }), Some(Status::InvalidDevice));
}

#[test]
fn their_stream_and_ours_are_ordered_by_events() {
    let Some(rig) = RealRig::new(1) else { return };
    let context = CudaContext::new(0).unwrap();
    let theirs = context.new_stream().unwrap();
    let lent = StreamHandle { device: 0, raw: theirs.cu_stream() as u64 };
    // SAFETY: the stream is live, of the primary context, and ends behind the last use here.
    unsafe { rig.stream_adopt(lent) }.unwrap();
    let own = rig.stream_create(0, 0).unwrap();
    let event = rig.event_create(0, EventFlags::default()).unwrap();
    let ptr = rig.malloc(0, 4096).unwrap();
    fill(&*rig, ptr, 1, 4096, lent).unwrap();
    rig.event_record(event, lent).unwrap();
    rig.stream_wait_event(own, event).unwrap();
    assert_eq!(read(&*rig, ptr, 4096, own), [1; 4096]);
    rig.stream_disown(lent).unwrap();
    rig.stream_destroy(own).unwrap();
    rig.event_destroy(event).unwrap();
    free(&*rig, ptr).unwrap();
}

/// What was used on a borrowed stream outlives it.
#[test]
fn a_borrowed_stream_may_end_before_the_memory() {
    let Some(rig) = RealRig::new(1) else { return };
    let allocator = CachingAllocator::new(rig.driver(), Config::default()).unwrap();
    let runtime: &Runtime = allocator.runtime();
    let context = CudaContext::new(0).unwrap();
    let theirs = context.new_stream().unwrap();
    let block = allocator.allocate(4096).unwrap();
    let handle = StreamHandle { device: 0, raw: theirs.cu_stream() as u64 };
    // SAFETY: the stream is live, of the primary context, and is given back before it ends.
    let lent = unsafe { runtime.adopt_stream(handle) }.unwrap();
    fill(&*rig, c10_cuda::driver::DevicePtr(block.as_ptr().addr() as u64), 7, 4096, handle).unwrap();
    allocator.record_stream(&block, lent).unwrap();
    theirs.synchronize().unwrap();
    runtime.disown_stream(lent).unwrap();
    drop(theirs);
    drop(block);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.device_stats(0).unwrap().reserved_bytes.all.current, 0, "the block came back");
    drop(allocator);
}
