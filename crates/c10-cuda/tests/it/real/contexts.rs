//! Contexts: the right one for each call, and the thread as it was.

use std::thread;

use c10_cuda::driver::{EventFlags, StreamHandle};
use cudarc::driver::CudaContext;

use super::RealRig;
use crate::support::{fill, free, read};

const S0: StreamHandle = StreamHandle::default_of(0);

#[test]
fn a_thread_that_never_touched_cuda_is_left_so() {
    let Some(rig) = RealRig::new(1) else { return };
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(rig.library.current_context(), 0);
            let ptr = rig.malloc(0, 4096).unwrap();
            let (stream, event) =
                (rig.stream_create(0, 0).unwrap(), rig.event_create(0, EventFlags::default()).unwrap());
            fill(&*rig, ptr, 3, 4096, stream).unwrap();
            rig.event_record(event, stream).unwrap();
            assert_eq!(read(&*rig, ptr, 8, stream), [3; 8]);
            rig.malloc(0, 0).unwrap_err();
            rig.device_props(0).unwrap();
            rig.event_destroy(event).unwrap();
            rig.stream_destroy(stream).unwrap();
            free(&*rig, ptr).unwrap();
            assert_eq!(rig.library.current_context(), 0);
        });
    });
}

#[test]
fn a_context_of_somebody_else_stays_current() {
    let Some(rig) = RealRig::new(2) else { return };
    let theirs = CudaContext::new(1).unwrap();
    theirs.bind_to_thread().unwrap();
    let current = rig.library.current_context();
    assert_ne!(current, 0);
    // Calls for the other device and for its own.
    for device in 0..2 {
        let on = StreamHandle::default_of(device);
        let ptr = rig.malloc(device, 64).unwrap();
        fill(&*rig, ptr, 5, 64, on).unwrap();
        assert_eq!(read(&*rig, ptr, 2, on), [5; 2]);
        free(&*rig, ptr).unwrap();
        assert_eq!(rig.library.current_context(), current);
    }
}

#[test]
fn a_device_has_a_context_once_it_is_used() {
    let Some((rig, control)) = RealRig::over_standin(2) else { return };
    assert_eq!(control.live_contexts(), 0);
    rig.device_props(1).unwrap();
    assert!(rig.can_access_peer(0, 1).is_ok());
    rig.malloc(2, 8).unwrap_err();
    rig.malloc(1, 0).unwrap_err();
    assert_eq!(control.live_contexts(), 0, "none of it needs one");
    rig.memory_info(1).unwrap();
    rig.memory_info(1).unwrap();
    assert_eq!(control.live_contexts(), 1);
    rig.stream_synchronize(S0).unwrap();
    assert_eq!(control.live_contexts(), 2);
    // Host memory is pinned in a context that is there.
    let pinned = rig.host_alloc(64).unwrap();
    assert_eq!(control.live_contexts(), 2);
    crate::support::host_free(&*rig, pinned).unwrap();
}

#[test]
fn two_drivers_of_a_process_share_contexts_and_no_handles() {
    let Some(rig) = RealRig::new(1) else { return };
    let other = c10_cuda::driver::real::load().unwrap();
    let stream = other.stream_create(0, 0).unwrap();
    let status = rig.stream_query(stream).unwrap_err().status;
    assert_eq!(status, c10_cuda::driver::Status::InvalidHandle);
    // The memory of one is memory for the other.
    let ptr = rig.malloc(0, 64).unwrap();
    fill(&*other, ptr, 9, 64, stream).unwrap();
    assert_eq!(read(&*other, ptr, 4, stream), [9; 4]);
    other.stream_destroy(stream).unwrap();
    drop(other);
    assert_eq!(read(&*rig, ptr, 4, S0), [9; 4]);
    free(&*rig, ptr).unwrap();
}
