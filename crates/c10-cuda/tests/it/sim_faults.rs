//! The fault plan: which calls fail, and that a failing call changes nothing.
#![expect(unsafe_code, reason = "frees pinned memory that nothing uses")]
#![expect(clippy::unwrap_used, reason = "the program under test is no test by its mark")]

use std::sync::Arc;

use c10_cuda::driver::sim::{CALL_NAMES, Completion, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, Driver, EventFlags, Result, Status, StreamHandle};

use crate::driver_rules::HOST_KERNELS;
use crate::module_rules::{call, unload};
use crate::support::{MIB, copy, fill, free, free_range, launch, range, unmap, upload};

const S0: StreamHandle = StreamHandle::default_of(0);
const INJECTED: Status = Status::Other(7);

/// Makes a call, and once more if the plan made it fail.
fn again<T>(call: impl Fn() -> Result<T>) -> T {
    match call() {
        Err(error) if error.status == INJECTED => call().unwrap(),
        result => result.unwrap(),
    }
}

/// Makes every call but those of other processes; gives all that can be seen of it.
fn program(d: &SimDriver) -> String {
    let timed = EventFlags { timing: true, ..EventFlags::default() };
    let props = again(|| d.device_props(1));
    let unit = again(|| d.granularity(0));
    let (a, b) = (again(|| d.malloc(0, 3 * MIB)), again(|| d.malloc(1, 100)));
    let (_, greatest) = again(|| d.stream_priority_range(0));
    let stream = again(|| d.stream_create(0, greatest));
    let (start, end) = (again(|| d.event_create(0, timed)), again(|| d.event_create(0, timed)));
    again(|| d.event_record(start, stream));
    again(|| upload(d, a, &[1, 2, 3, 4], stream));
    again(|| fill(d, a.offset(2), 9, 5, stream));
    again(|| copy(d, b, a, 100, stream));
    again(|| launch(d, stream, "one", &[], &[range(a, 1)], |memory| memory.write(0, 0, &[8])));
    again(|| d.event_record(end, stream));
    again(|| d.stream_wait_event(S0, end));
    let asked =
        (again(|| d.event_query(end)), again(|| d.stream_query(stream)), again(|| d.capture_state(S0)));
    again(|| d.stream_synchronize(S0));
    let ms = again(|| d.event_elapsed_ms(start, end));
    let mut seen = ([0; 8], [0; 8]);
    d.peek(a, &mut seen.0).unwrap();
    d.peek(b, &mut seen.1).unwrap();
    let held = again(|| d.reserve(0, 2 * unit));
    let memory = again(|| d.create(0, unit));
    again(|| d.map(held.base, memory));
    again(|| d.set_access(held.base, unit, &[0]));
    again(|| d.release(memory));
    let info = (again(|| d.memory_info(0)), again(|| d.memory_info(1)));
    again(|| unmap(d, held.base, unit));
    again(|| free_range(d, held));
    let host = again(|| d.host_alloc(64));
    // SAFETY: nothing uses the memory.
    again(|| unsafe { d.host_free(host) });
    let mut own = [0_u8; 64];
    let at = std::ptr::NonNull::from(&mut own[0]);
    // SAFETY: the bytes are the program's until the next line.
    again(|| unsafe { d.host_register(at, 64) });
    // SAFETY: no work uses them.
    again(|| unsafe { d.host_unregister(at) });
    again(|| d.mem_pool_set_release_threshold(0, MIB));
    let pooled = again(|| d.malloc_async(1000, stream));
    again(|| fill(d, pooled, 3, 1000, stream));
    // SAFETY: the stream's work on the memory is before this.
    again(|| unsafe { d.free_async(pooled, stream) });
    let pool = (again(|| d.mem_pool_info(0)), again(|| d.graph_memory_info(0)));
    again(|| d.mem_pool_reset_peaks(0));
    again(|| d.graph_memory_reset_peaks(0));
    again(|| d.mem_pool_set_access(0, 1));
    again(|| d.mem_pool_trim(0, 0));
    let mode = again(|| d.exchange_capture_mode(CaptureMode::ThreadLocal));
    again(|| d.stream_begin_capture(stream, CaptureMode::Global));
    again(|| launch(d, stream, "node", &[], &[], |_| {}));
    again(|| d.event_record_external(end, stream));
    let captured = again(|| d.capture_info(stream)).unwrap();
    let before = again(|| d.node_dependencies(captured.dependencies[0]));
    let graph = again(|| d.stream_end_capture(stream));
    let nodes = again(|| d.graph_node_count(graph));
    let exec = again(|| d.graph_instantiate(graph));
    again(|| d.graph_exec_update(exec, graph));
    again(|| d.graph_destroy(graph));
    again(|| d.exchange_capture_mode(mode));
    again(|| d.graph_upload(exec, stream));
    // SAFETY: the graph uses no memory.
    again(|| unsafe { d.graph_launch(exec, stream) });
    again(|| d.graph_exec_destroy(exec));
    let graph = (captured, before, nodes, again(|| d.stream_priority(stream)));
    let module = again(|| d.module_load(0, HOST_KERNELS));
    let spin = again(|| d.module_function(module, "spin"));
    again(|| call(d, stream, spin, &[&9_u64.to_le_bytes()]));
    again(|| unload(d, module));
    let peer = again(|| d.can_access_peer(0, 1));
    again(|| d.enable_peer_access(0, 1));
    again(|| d.event_synchronize(end));
    again(|| d.event_destroy(end));
    again(|| d.event_destroy(start));
    again(|| d.stream_destroy(stream));
    again(|| d.device_synchronize(0));
    again(|| free(d, a));
    again(|| free(d, b));
    let calls: Vec<_> =
        d.take_calls().iter().filter(|c| c.status.is_none()).map(ToString::to_string).collect();
    let work: Vec<_> = d.take_work().iter().map(ToString::to_string).collect();
    let left = (again(|| d.memory_info(0)), again(|| d.memory_info(1)), d.pending(), d.now_ns());
    format!(
        "{props:?} {asked:?} {ms} {seen:?} {info:?} {pool:?} {graph:?} {peer} {left:?}\n{}\n{}",
        calls.join("\n"),
        work.join("\n")
    )
}

fn machine(completion: Completion) -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_devices(2, 64 * MIB).completion(completion).log_calls(1000))
}

#[test]
fn a_program_that_tries_again_sees_no_trace_of_any_failure() {
    for completion in [Completion::Manual, Completion::Eager] {
        let whole = machine(completion);
        let expected = program(&whole);
        let mut failures = 0;
        for name in CALL_NAMES {
            for nth in 1..=whole.call_count(name) {
                let sim = machine(completion);
                sim.set_faults(FaultRule::nth(name, nth, INJECTED).into());
                assert_eq!(program(&sim), expected, "call {nth} of {name} failed");
                assert_eq!(sim.call_count(name), whole.call_count(name) + 1, "{name} has failed");
                failures += 1;
            }
        }
        assert!(failures > 40, "{failures}");
    }
}

#[test]
fn every_call_of_the_trait_can_fail() {
    let whole = machine(Completion::Manual);
    program(&whole);
    let unused: Vec<_> = CALL_NAMES.into_iter().filter(|name| whole.call_count(name) == 0).collect();
    assert_eq!(
        unused,
        [
            "ipc_export",
            "ipc_open",
            "ipc_close",
            "export_memory",
            "import_memory",
            "event_export",
            "event_open"
        ]
    );
}

#[test]
fn rules_strike_as_they_say() {
    let failed = |rule: FaultRule| {
        let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).faults(rule.into()));
        (1..=8).filter(|_| sim.malloc(0, 1).is_err_and(|e| e.status == INJECTED)).count()
    };
    let rule = |when| FaultRule::new("malloc", when, INJECTED);
    assert_eq!(failed(rule(FaultWhen::Nth(3))), 1);
    assert_eq!(failed(rule(FaultWhen::Every(3))), 2);
    assert_eq!(failed(rule(FaultWhen::Every(0))), 0);
    assert_eq!(failed(rule(FaultWhen::Every(1)).times(5)), 5);
    assert_eq!(failed(rule(FaultWhen::AboveBytes(10 * MIB))), 3, "five of two mebibytes fit");
    assert_eq!(failed(FaultRule::new("free", FaultWhen::Every(1), INJECTED)), 0);
    assert_eq!(failed(FaultRule::any(FaultWhen::Every(1), INJECTED)), 8);
    assert_eq!(failed(rule(FaultWhen::Probability { p: 0.0, seed: 1 })), 0);
    assert_eq!(failed(rule(FaultWhen::Probability { p: 1.0, seed: 1 })), 8);
    let by_chance = |seed| {
        let sim = machine(Completion::Manual);
        sim.set_faults(rule(FaultWhen::Probability { p: 0.5, seed }).into());
        (0..24).map(|_| sim.malloc(0, 1).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(by_chance(1), by_chance(1));
    assert_ne!(by_chance(1), by_chance(2));
}

#[test]
fn the_first_rule_that_strikes_decides_and_plans_can_be_replaced() {
    let plan = FaultPlan::new()
        .rule(FaultRule::nth("malloc", 2, Status::OutOfMemory))
        .rule(FaultRule::any(FaultWhen::Every(2), INJECTED));
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).faults(plan));
    let status = |sim: &SimDriver| sim.malloc(0, 1).err().map(|e| e.status);
    assert_eq!([(); 4].map(|()| status(&sim)), [None, Some(Status::OutOfMemory), None, Some(INJECTED)]);
    sim.set_faults(FaultPlan::new());
    assert_eq!([(); 2].map(|()| status(&sim)), [None, None]);
}

#[test]
#[should_panic(expected = "the driver has no call `maloc`")]
fn a_misspelt_rule_is_no_rule() {
    let _ = FaultRule::nth("maloc", 1, INJECTED);
}
