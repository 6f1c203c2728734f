//! Every driver call of every path fails once, at every place of a program, with every status.
//!
//! The sweep is generic: a path joins by a program in [`programs`].

mod programs;
mod world;

use c10_cuda::driver::Status;
use c10_cuda::driver::sim::{CALL_NAMES, FaultPlan, FaultRule, FaultWhen};
use c10_cuda::{Config, Error, ErrorKind};

use crate::rig::MIB;
use programs::{PROGRAMS, Program, busy};
use world::{BYTES, World, free_on};

/// What a call may fail with.
const STATUSES: [Status; 14] = [
    Status::OutOfMemory,
    Status::InvalidHandle,
    Status::Other(999),
    Status::InvalidValue,
    Status::InvalidDevice,
    Status::AlreadyMapped,
    Status::NotMapped,
    Status::NotReady,
    Status::CaptureUnsupported,
    Status::CaptureInvalidated,
    Status::NotPermitted,
    Status::IllegalAddress,
    Status::NotSupported,
    Status::DeviceLost,
];
/// How many of a call's places are tried; beyond the first two with three statuses alone.
const PLACES: u64 = 12;

/// How often each call is made by a program.
fn counts(program: &Program) -> Vec<(&'static str, u64)> {
    let mut world = program.world();
    let before = CALL_NAMES.map(|name| world.sim.call_count(name));
    (program.run)(&mut world);
    let made = CALL_NAMES.iter().zip(before);
    let counts = made.map(|(name, before)| (*name, world.sim.call_count(name) - before));
    let counts = counts.filter(|(_, count)| *count > 0).collect();
    world.end(program.name);
    counts
}

/// Runs a program with one fault.
fn strike(program: &Program, call: &str, nth: u64, status: Status) {
    let what = format!("{call} #{nth} {status} in {:?}", program.name);
    let mut world = program.world();
    world.sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, status)));
    (program.run)(&mut world);
    for error in &world.errors {
        assert!(is_told(error, call, status), "{what}: {error:?}");
    }
    world.end(&what);
}

/// Whether an error is the fault's, or a shortage that the program meets anyway.
fn is_told(error: &Error, call: &str, status: Status) -> bool {
    match error.kind() {
        ErrorKind::OutOfMemory => error.out_of_memory().is_some() || error.driver().is_some(),
        ErrorKind::Driver | ErrorKind::Capture => {
            error.driver().is_some_and(|e| e.call == call && e.status == status)
        }
        _ => false,
    }
}

#[test]
fn the_programs_are_busy() {
    let mut names: Vec<_> = PROGRAMS.iter().flat_map(counts).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    insta::assert_snapshot!(names.join(" "), @"capture_state copy create device_props event_create event_destroy event_query event_record event_synchronize exchange_capture_mode fill free free_range host_alloc host_free launch malloc map memory_info release reserve set_access stream_create stream_priority_range stream_synchronize stream_wait_event unmap");
}

#[test]
fn one_fault_anywhere_is_an_error_and_no_more() {
    for program in PROGRAMS {
        for (call, count) in counts(program) {
            for nth in 1..=count.min(PLACES) {
                let statuses = if nth <= 2 { &STATUSES[..] } else { &STATUSES[..3] };
                statuses.iter().for_each(|status| strike(program, call, nth, *status));
            }
        }
    }
}

#[test]
fn a_free_whose_event_fails_is_told_of() {
    for call in ["event_create", "event_record"] {
        let mut world = PROGRAMS[0].world();
        world.sim.set_faults(FaultPlan::from(FaultRule::nth(call, 1, Status::Other(999))));
        busy(&mut world);
        let met = world.cuda.take_free_error(0).unwrap();
        assert_eq!(met.map(|error| error.call), Some(call));
        world.end(call);
    }
}

#[test]
fn faults_while_the_allocator_ends_lose_no_memory_but_what_the_driver_keeps() {
    for call in ["event_synchronize", "event_query", "event_destroy", "device_synchronize"] {
        let mut world = World::lenient(Config::default());
        busy(&mut world);
        let side = world.runtime.stream_from_pool(0, 0).unwrap();
        let ptr = world.cuda.allocate(3 * MIB).unwrap();
        world.cuda.record_stream(&ptr, side).unwrap();
        drop(ptr);
        let World { held, cuda, pinned, runtime, sim, .. } = world;
        sim.set_faults(FaultPlan::from(FaultRule::nth(call, 1, Status::Other(4))));
        drop((cuda, pinned, runtime));
        drop(held);
        assert_eq!(free_on(&sim, 0), BYTES, "{call}");
    }
    // A segment that the driver does not take back stays; the others go.
    let world = World::lenient(Config::default());
    let blocks = [20, 30, 40].map(|mib| world.cuda.allocate(mib * MIB).unwrap());
    drop(blocks);
    let World { cuda, pinned, sim, runtime, .. } = world;
    sim.set_faults(FaultPlan::from(FaultRule::nth("free", 2, Status::Other(4))));
    drop((cuda, pinned, runtime));
    assert_eq!(free_on(&sim, 0), BYTES - 30 * MIB);
}

#[test]
fn a_free_that_fails_stops_no_other() {
    let world = PROGRAMS[0].world();
    drop([20, 30, 40].map(|mib| world.cuda.allocate(mib * MIB).unwrap()));
    world.sim.set_faults(FaultPlan::from(FaultRule::nth("free", 1, Status::Other(4))));
    let error = world.cuda.empty_cache().unwrap_err();
    assert_eq!((error.kind(), error.driver().unwrap().call), (ErrorKind::Driver, "free"));
    assert_eq!(world.cuda.memory_reserved(0).unwrap(), 20 * MIB);
    world.cuda.empty_cache().unwrap();
    assert_eq!(world.cuda.memory_reserved(0).unwrap(), 0);
}

#[test]
fn a_driver_that_is_dead_harms_nobody() {
    let mut world = PROGRAMS[0].world();
    busy(&mut world);
    let dead = FaultRule::any(FaultWhen::Every(1), Status::IllegalAddress);
    world.sim.set_faults(FaultPlan::from(dead));
    let before = world.errors.len();
    busy(&mut world);
    assert!(world.errors[before..].iter().all(|error| error.kind() != ErrorKind::InvalidArgument));
    world.held.clear();
    world.cuda.check_invariants();
    assert_eq!(world.cuda.empty_cache().unwrap_err().kind(), ErrorKind::Driver);
    let World { cuda, pinned, runtime, .. } = world;
    drop((runtime, cuda, pinned));
}

#[test]
fn random_faults_leave_nothing_behind() {
    for seed in 0..60 {
        let program = &PROGRAMS[seed as usize % PROGRAMS.len()];
        let mut world = program.world();
        let when = |p| FaultWhen::Probability { p, seed };
        let plan = FaultPlan::new()
            .rule(FaultRule::new("malloc", when(0.3), Status::OutOfMemory))
            .rule(FaultRule::any(when(0.15), Status::Other(2)));
        world.sim.set_faults(plan);
        for _ in 0..3 {
            (program.run)(&mut world);
        }
        world.end_after_many(&format!("seed {seed}, {:?}", program.name));
    }
}
