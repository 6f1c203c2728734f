//! Captures that begin while calls are made, step by step.

use std::sync::mpsc;
use std::time::Duration;

use super::Captures;
use crate::driver::sim::{FaultPlan, FaultRule, SimConfig, SimDriver};
use crate::driver::{CaptureMode, Driver, Status};
use crate::sync::Arc;

/// Long enough for a thread that is not held off.
const WHILE: Duration = Duration::from_millis(50);

#[test]
fn a_capture_that_is_to_begin_waits_for_calls_and_is_seen_meanwhile() {
    let captures = Captures::default();
    let quiet = captures.quiet().unwrap();
    let (begun, when_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            captures.begin();
            begun.send(()).unwrap();
        });
        while !captures.are_under_way() {
            std::thread::yield_now();
        }
        // Whoever comes now is beside it, and a thread that is in a call is not held up.
        scope.spawn(|| assert!(captures.quiet().is_none())).join().unwrap();
        drop(captures.quiet().unwrap());
        assert!(when_begun.recv_timeout(WHILE).is_err(), "it begins in the call");
        drop(quiet);
        when_begun.recv().unwrap();
    });
    assert!(captures.quiet().is_none());
    captures.end();
    assert!(captures.quiet().is_some());
}

#[test]
fn what_was_left_is_done_once_and_in_no_capture() {
    let captures = Arc::new(Captures::default());
    captures.begin();
    let (done, when_done) = mpsc::channel();
    let own = Arc::clone(&captures);
    captures.when_over(move || {
        // A call in it goes on, too.
        assert!(own.quiet().is_some());
        done.send(()).unwrap();
    });
    captures.begin();
    captures.end();
    assert!(when_done.try_recv().is_err(), "one is still under way");
    captures.end();
    when_done.try_recv().unwrap();
    assert!(when_done.try_recv().is_err());
}

#[test]
fn a_thread_that_begins_one_in_its_own_call_does_not_wait_for_itself() {
    let captures = Captures::default();
    let quiet = captures.quiet().unwrap();
    captures.begin();
    drop(quiet);
    captures.end();
}

#[test]
fn a_mode_that_could_not_be_restored_is_with_the_next_call() {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
        let sim = SimDriver::new(SimConfig::with_bytes(1 << 30));
        sim.exchange_capture_mode(mode).unwrap();
        let captures = Captures::default();
        captures.begin();
        sim.set_faults(FaultPlan::from(FaultRule::nth("exchange_capture_mode", 2, Status::Other(999))));
        drop(captures.relaxed(&*sim).unwrap());
        sim.set_faults(FaultPlan::new());
        assert_eq!(sim.exchange_capture_mode(CaptureMode::Relaxed).unwrap(), CaptureMode::Relaxed);
        // Another thread's is its own.
        std::thread::scope(|scope| scope.spawn(|| drop(captures.relaxed(&*sim).unwrap())).join().unwrap());
        drop(captures.relaxed(&*sim).unwrap());
        assert_eq!(sim.exchange_capture_mode(mode).unwrap(), mode);
        drop(captures.relaxed(&*sim).unwrap());
        assert_eq!(sim.exchange_capture_mode(mode).unwrap(), mode, "it is owed once");
    }
}
