//! Streams of the caller's, and failures.

use std::ptr::without_provenance_mut;

use c10_cuda::driver::sim::{FaultPlan, FaultRule};
use c10_cuda::driver::{Driver, Status};

use super::*;

#[test]
fn a_stream_that_could_not_be_forgotten_is_forgotten_later() {
    let world = World::new(Machine::Sim { devices: 1, bytes: 1 << 30 }, Config::default()).unwrap();
    let sim = world.sim().unwrap();
    let theirs = sim.stream_create(0, 0).unwrap();
    let argument = without_provenance_mut(theirs.raw as usize);
    // SAFETY: the stream is there until the end.
    let stream = unsafe { world.stream(0, argument) }.unwrap();
    let block = world.cuda.allocate(1000).unwrap();
    world.cuda.record_stream(&block, stream).unwrap();
    sim.set_faults(FaultPlan::from(FaultRule::nth("event_record", 1, Status::Other(999))));
    assert!(world.forget(0, argument).is_err());
    assert_eq!(sim.call_count("event_record"), 1);
    // Its use is told to the driver now, and not a third time.
    for _ in 0..2 {
        world.forget(0, argument).unwrap();
        assert_eq!(sim.call_count("event_record"), 2);
    }
    sim.stream_destroy(theirs).unwrap();
    drop(block);
    world.cuda.empty_cache().unwrap();
    assert_eq!(world.cuda.memory_reserved(0).unwrap(), 0);
}
