//! What the checking and the recording decorator do beside handing calls on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{Checked, DevicePtr, Driver, EventFlags, Record, StreamHandle};

use crate::support::{MIB, copy, fill, free, free_range, launch, range, unmap};

const S0: StreamHandle = StreamHandle::default_of(0);

fn sim() -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_devices(2, 64 * MIB))
}

/// The message with which a call panics.
fn panics<T>(call: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).err().expect("it ought to panic");
    *payload.downcast::<String>().expect("assertions carry texts")
}

#[test]
fn a_driver_that_breaks_a_rule_is_found() {
    // Calls past the decorator make the driver under it look wrong.
    let sim = sim();
    let checked = Checked::new(Arc::clone(&sim) as Arc<dyn Driver>);
    let unseen = sim.malloc(0, 1).unwrap();
    insta::assert_snapshot!(panics(|| free(&*checked, unseen)), @"R2: the driver accepted the free of 0x10000000000000, which is not live");
    let seen = checked.malloc(0, 1).unwrap();
    free(&*sim, seen).unwrap();
    insta::assert_snapshot!(panics(|| checked.malloc(0, 1)), @"R6: malloc gave 1 bytes at 0x10000000000000, which overlap a live range");
    let event = checked.event_create(0, EventFlags::default()).unwrap();
    checked.event_record(event, S0).unwrap();
    sim.complete_all();
    assert!(checked.event_query(event).unwrap());
    sim.event_record(event, S0).unwrap();
    insta::assert_snapshot!(panics(|| checked.event_query(event)), @"R3: EventHandle { device: 0, raw: 2 } is not ready, and what it stands for, or later work of its stream, is complete");
    let stream = sim.stream_create(0, 0).unwrap();
    insta::assert_snapshot!(panics(|| checked.stream_query(stream)), @"R2: the driver accepted StreamHandle { device: 0, raw: 6 }, which is not live");
    let held = checked.reserve(0, 4 * MIB).unwrap();
    let memory = checked.create(0, 2 * MIB).unwrap();
    checked.map(held.base, memory).unwrap();
    unmap(&*sim, held.base, 2 * MIB).unwrap();
    insta::assert_snapshot!(panics(|| free_range(&*checked, held)), @"R8: the driver accepted the free of VaRange { base: 0x10400000000000, bytes: 4194304 }, which is still mapped");
}

#[test]
fn a_caller_that_breaks_a_rule_is_found_when_asked_for() {
    let checked = Checked::strict(sim());
    let ptr = checked.malloc(0, 64).unwrap();
    insta::assert_snapshot!(panics(|| fill(&*checked, ptr, 0, 65, S0)), @"R2: fill uses 65 bytes at 0x10000000000000, which is not all usable");
    insta::assert_snapshot!(panics(|| copy(&*checked, ptr, DevicePtr(8), 2, S0)), @"R2: copy uses 2 bytes at 0x8, which is not all usable");
    free(&*checked, ptr).unwrap();
    insta::assert_snapshot!(panics(|| free(&*checked, ptr)), @"R2: 0x10000000000000 is freed and not live");
    insta::assert_snapshot!(panics(|| launch(&*checked, S0, "late", &[range(ptr, 4)], &[], |_| ())), @"R2: late uses 4 bytes at 0x10000000000000, which is not all usable");
    let held = checked.reserve(0, 4 * MIB).unwrap();
    let memory = checked.create(0, 2 * MIB).unwrap();
    checked.map(held.base, memory).unwrap();
    insta::assert_snapshot!(panics(|| fill(&*checked, held.base, 0, 4, S0)), @"R8: fill uses 4 bytes at 0x10400000000000, which is not all usable");
    insta::assert_snapshot!(panics(|| free_range(&*checked, held)), @"R8: VaRange { base: 0x10400000000000, bytes: 4194304 } is freed and still mapped");
    insta::assert_snapshot!(panics(|| checked.map(held.base, memory)), @"R8: PhysHandle { device: 0, raw: 2, bytes: 2097152 } is mapped at 0x10400000000000, which is no free reserved range");
    checked.set_access(held.base, 2 * MIB, &[0]).unwrap();
    fill(&*checked, held.base, 0, 4, S0).unwrap();
    insta::assert_snapshot!(panics(|| unmap(&*checked, held.base, 4 * MIB)), @"R8: 4194304 bytes at 0x10400000000000 are unmapped and are no whole mappings");
    let event = checked.event_create(0, EventFlags::default()).unwrap();
    let there = StreamHandle::default_of(1);
    insta::assert_snapshot!(panics(|| checked.event_record(event, there)), @"R3: EventHandle { device: 0, raw: 2 } is recorded on StreamHandle { device: 1, raw: 0 }");
    checked.event_destroy(event).unwrap();
    insta::assert_snapshot!(panics(|| checked.event_query(event)), @"R2: EventHandle { device: 0, raw: 2 } is used and not live");
    insta::assert_snapshot!(checked.live(), @"1 reservations, 1 mappings, 1 physical");
    unmap(&*checked, held.base, 2 * MIB).unwrap();
    checked.release(memory).unwrap();
    free_range(&*checked, held).unwrap();
    assert_eq!(checked.live(), "");
}

#[test]
fn a_trace_has_a_line_for_each_call() {
    let record = Record::new(sim());
    let ptr = record.malloc(0, 64).unwrap();
    let stream = record.stream_create(0, -1).unwrap();
    let event = record.event_create(0, EventFlags { timing: true, ..EventFlags::default() }).unwrap();
    fill(&*record, ptr, 7, 64, stream).unwrap();
    launch(&*record, stream, "relu", &[range(ptr, 4)], &[range(ptr, 4), range(ptr.offset(8), 1)], |_| ())
        .unwrap();
    record.event_record(event, stream).unwrap();
    record.event_query(event).unwrap();
    record.event_synchronize(event).unwrap();
    record.memory_info(1).unwrap();
    record.malloc(1, 1 << 40).unwrap_err();
    crate::support::read(&*record, ptr, 2, stream);
    let held = record.reserve(0, 2 * MIB).unwrap();
    let memory = record.create(0, 2 * MIB).unwrap();
    record.map(held.base, memory).unwrap();
    record.set_access(held.base, 2 * MIB, &[0, 1]).unwrap();
    record.host_alloc(4).unwrap();
    free(&*record, ptr).unwrap();
    insta::assert_snapshot!(record.take_trace(), @r#"
    malloc(0, 64) = 0x10000000000000
    stream_create(0, -1) = 0:6
    event_create(0 timing) = 0:2
    fill(0x10000000000000, 7, 64, 0:6) = ok
    launch(0:6, relu, reads [0x10000000000000+4], writes [0x10000000000000+4 0x10000000000008+1]) = ok
    event_record(0:2, 0:6) = ok
    event_query(0:2) = false
    event_synchronize(0:2) = ok
    memory_info(1) = 67108864 of 67108864
    malloc(1, 1099511627776) = out of memory
    copy(host, 0x10000000000000, 2, 0:6) = ok
    stream_synchronize(0:6) = ok
    reserve(0, 2097152) = 0x10400000000000
    create(0, 2097152) = 2
    map(0x10400000000000, 0:2, 2097152) = ok
    set_access(0x10400000000000, 2097152, [0, 1]) = ok
    host_alloc(4) = host
    free(0x10000000000000) = ok
    "#);
    assert_eq!(record.take_trace(), "");
}
