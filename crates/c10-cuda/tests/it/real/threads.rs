//! The books under threads that use and end the same handles.

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use c10_cuda::driver::{CaptureMode, EventFlags, Result, Status, StreamHandle};

use super::RealRig;
use crate::module_rules::unload;
use crate::support::{MIB, fill, free, free_range, unmap};

const S0: StreamHandle = StreamHandle::default_of(0);

/// Whether the call was done, or found its handle ended.
fn done<T>(result: Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.status, Status::InvalidHandle, "{error}");
            false
        }
    }
}

#[test]
fn handles_end_while_other_threads_use_them() {
    let Some(rig) = RealRig::new(1) else { return };
    let rig = &rig;
    let ptr = rig.malloc(0, MIB).unwrap();
    for _ in 0..100 {
        let stream = rig.stream_create(0, 0).unwrap();
        let event = rig.event_create(0, EventFlags::default()).unwrap();
        let start = &Barrier::new(4);
        thread::scope(|scope| {
            for own in 0..3 {
                scope.spawn(move || {
                    start.wait();
                    let mut alive = true;
                    while alive {
                        alive = done(fill(&**rig, ptr.offset(own * 8), 1, 8, stream));
                        done(rig.event_record(event, stream));
                        done(rig.stream_wait_event(S0, event));
                        done(rig.event_query(event));
                        done(rig.event_synchronize(event));
                        alive &= done(rig.stream_query(stream));
                    }
                });
            }
            scope.spawn(move || {
                start.wait();
                rig.event_destroy(event).unwrap();
                assert_eq!(rig.event_destroy(event).unwrap_err().status, Status::InvalidHandle);
                rig.stream_destroy(stream).unwrap();
            });
        });
    }
    rig.device_synchronize(0).unwrap();
    free(&**rig, ptr).unwrap();
}

#[test]
fn one_thread_of_many_ends_a_handle() {
    let Some(rig) = RealRig::new(1) else { return };
    let rig = &rig;
    for _ in 0..50 {
        let stream = rig.stream_create(0, 0).unwrap();
        rig.stream_begin_capture(stream, CaptureMode::Relaxed).unwrap();
        let graph = rig.stream_end_capture(stream).unwrap();
        let exec = rig.graph_instantiate(graph).unwrap();
        let module = rig.kernels(0);
        let ptr = rig.malloc(0, 64).unwrap();
        let ends: [&(dyn Fn() -> bool + Sync); 5] = [
            &|| rig.stream_destroy(stream).is_ok(),
            &|| rig.graph_destroy(graph).is_ok(),
            &|| rig.graph_exec_destroy(exec).is_ok(),
            &|| unload(&**rig, module).is_ok(),
            &|| free(&**rig, ptr).is_ok(),
        ];
        for end in ends {
            let ended = thread::scope(|scope| {
                let threads = [(); 3].map(|()| scope.spawn(end));
                threads.into_iter().map(|t| t.join().unwrap()).filter(|ended| *ended).count()
            });
            assert_eq!(ended, 1);
        }
    }
}

#[test]
fn threads_map_and_unmap_side_by_side() {
    let Some(rig) = RealRig::new(1) else { return };
    let rig = &rig;
    let unit = rig.granularity(0).unwrap();
    let range = rig.reserve(0, 4 * unit).unwrap();
    thread::scope(|scope| {
        for place in 0..4 {
            scope.spawn(move || {
                let at = range.base.offset(place * unit);
                for _ in 0..30 {
                    let memory = rig.create(0, unit).unwrap();
                    rig.map(at, memory).unwrap();
                    assert_eq!(rig.map(at, memory).unwrap_err().status, Status::AlreadyMapped);
                    rig.release(memory).unwrap();
                    rig.set_access(at, unit, &[0]).unwrap();
                    fill(&**rig, at, place as u8, unit, S0).unwrap();
                    rig.stream_synchronize(S0).unwrap();
                    unmap(&**rig, at, unit).unwrap();
                }
            });
        }
    });
    free_range(&**rig, range).unwrap();
}

/// Two threads that use two events in either order wait for none, though others are about to end them.
#[test]
fn times_are_taken_between_events_that_end() {
    let Some(rig) = RealRig::new(1) else { return };
    let driver = rig.driver();
    let (over, is_over) = mpsc::channel();
    // Threads of their own: a scope would wait for those that hang.
    let watched = thread::spawn(move || {
        for _ in 0..3000 {
            let timed = EventFlags { timing: true, ..EventFlags::default() };
            let [a, b] = [(); 2].map(|()| driver.event_create(0, timed).unwrap());
            for event in [a, b] {
                driver.event_record(event, S0).unwrap();
            }
            let (driver, start) = (&*driver, &Barrier::new(4));
            thread::scope(|scope| {
                for (from, to) in [(a, b), (b, a)] {
                    scope.spawn(move || {
                        start.wait();
                        while done(driver.event_elapsed_ms(from, to)) {}
                    });
                }
                for event in [a, b] {
                    scope.spawn(move || {
                        start.wait();
                        driver.event_destroy(event).unwrap();
                    });
                }
            });
        }
        drop(driver);
        over.send(()).unwrap();
    });
    is_over.recv_timeout(Duration::from_secs(120)).expect("threads wait for each other");
    watched.join().unwrap();
}
