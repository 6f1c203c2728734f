//! An allocator that serves a plan: iterations that are as recorded, and such as are not.

use std::sync::Arc;

use c10_core::DataPtr;
use c10_cuda::alloc::{BlockState, History, TraceAction};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, FaultWhen, SimConfig};
use c10_cuda::driver::{Driver, Status};
use c10_cuda::plan::{Limits, Plan, PlanStats, Recording, Shape};
use c10_cuda::{Config, ErrorKind, Placement};

use crate::rig::{MIB, Rig, address};

/// A small model: weights, and what an iteration leaves for the next one.
struct Program {
    weights: Vec<DataPtr>,
    gradients: Vec<DataPtr>,
}

const LAYERS: u64 = 6;

impl Program {
    fn new(rig: &Rig) -> Self {
        let weights = (0..LAYERS).map(|layer| rig.allocate((3 + layer) * MIB)).collect();
        Self { weights, gradients: Vec::new() }
    }

    /// One iteration, and where its blocks were.
    fn iterate(&mut self, rig: &Rig) -> Vec<u64> {
        let mut places = Vec::new();
        let mut at = |ptr: DataPtr| {
            places.push(address(&ptr));
            ptr
        };
        self.gradients.clear();
        let mut activations = Vec::new();
        for layer in 0..LAYERS {
            activations.push(at(rig.allocate((7 - layer) * MIB + 512 * layer)));
            drop(at(rig.allocate(600 * 1024)));
        }
        while let Some(activation) = activations.pop() {
            let gradient = at(rig.allocate((2 + activations.len() as u64) * MIB));
            drop(at(rig.allocate(5 * MIB)));
            drop(activation);
            self.gradients.push(gradient);
        }
        places
    }
}

fn limits() -> Limits {
    Limits { steps: 1_000_000, ..Limits::default() }
}

/// The plan of an iteration, made while it runs.
fn planned(rig: &Rig, program: &mut Program) -> Arc<Plan> {
    program.iterate(rig);
    rig.cuda.begin_recording(0).unwrap();
    program.iterate(rig);
    let recording = rig.cuda.end_recording(0).unwrap();
    Arc::new(Plan::make(&recording, Shape::Iteration, &limits(), &mut |_| true).unwrap())
}

fn stats(rig: &Rig) -> PlanStats {
    rig.cuda.plan_stats(0).unwrap().unwrap()
}

#[test]
fn later_iterations_go_where_the_plan_says_and_call_no_driver() {
    let rig = Rig::new(1 << 30);
    let mut program = Program::new(&rig);
    let plan = planned(&rig, &mut program);
    let requests = plan.len() as u64;
    assert_eq!((plan.len(), plan.period()), (24, Some(24)));
    program.gradients.clear();
    rig.cuda.set_plan(Some(Arc::clone(&plan)), 0).unwrap();
    rig.cuda.begin_iteration(0).unwrap();
    let first = program.iterate(&rig);
    rig.sim.take_calls();
    for lap in 2..5 {
        rig.cuda.begin_iteration(0).unwrap();
        assert_eq!(program.iterate(&rig), first, "lap {lap}");
        let so_far = PlanStats { planned: lap * requests, laps: lap - 1, ..PlanStats::default() };
        assert_eq!(stats(&rig), so_far);
    }
    // The same without marks.
    assert_eq!(program.iterate(&rig), first);
    assert_eq!(stats(&rig).planned, 5 * requests);
    assert!(rig.sim.take_calls().is_empty());
    let weights: u64 =
        program.weights.iter().map(|ptr| rig.cuda.base_allocation(ptr).unwrap().1).max().unwrap();
    assert_eq!(weights, 20 * MIB);
    let (base, bytes) = rig.cuda.base_allocation(&program.gradients[0]).unwrap();
    assert_eq!(bytes, plan.height().next_multiple_of(2 * MIB));
    assert!(first.iter().all(|at| (base.0..base.0 + plan.height()).contains(at)));
}

#[test]
fn a_program_that_deviates_is_served_and_found_again() {
    let rig = Rig::new(1 << 30);
    let mut program = Program::new(&rig);
    let plan = planned(&rig, &mut program);
    program.gradients.clear();
    rig.cuda.set_plan(Some(plan), 0).unwrap();
    program.iterate(&rig);
    let all = |planned, outside, laps| PlanStats { planned, outside, laps, ..PlanStats::default() };
    // A small request more stands in nobody's way, nor does one for which the arena has no room.
    for bytes in [512, 200 * MIB] {
        let extra = rig.allocate(bytes);
        program.iterate(&rig);
        drop(extra);
    }
    assert_eq!(stats(&rig), all(72, 2, 2));
    // Gradients that are kept for longer than they were: theirs are other places.
    let kept = std::mem::take(&mut program.gradients);
    program.iterate(&rig);
    let now = stats(&rig);
    assert!(now.elsewhere + now.outside >= 2 + LAYERS, "{now:?}");
    drop(kept);
    program.iterate(&rig);
    program.iterate(&rig);
    let before = stats(&rig);
    program.iterate(&rig);
    assert_eq!(stats(&rig).planned, before.planned + 24, "all as planned again");
}

#[test]
fn requests_that_are_left_out_are_skipped_over() {
    let mut recording = Recording::new();
    let sizes: Vec<u64> = (1..=40).map(|n| n * 512).collect();
    for size in &sizes {
        let request = recording.allocate(*size, 0).unwrap();
        recording.free(request).unwrap();
    }
    let plan = Plan::make(&recording, Shape::Iteration, &limits(), &mut |_| true).unwrap();
    let config = Config { placement: Placement::Planned(Arc::new(plan)), ..Config::default() };
    let rig = Rig::with_config(SimConfig::with_bytes(1 << 30), config);
    let run = |sizes: &[u64]| sizes.iter().for_each(|size| drop(rig.allocate(*size)));
    run(&sizes[..10]);
    run(&sizes[25..]);
    let now = stats(&rig);
    assert_eq!((now.planned, now.outside, now.resynchronised), (24, 1, 1));
    // The next lap, and somewhere else in it.
    run(&sizes[..30]);
    run(&sizes[12..]);
    let now = stats(&rig);
    assert_eq!((now.planned, now.outside, now.resynchronised, now.laps), (75, 8, 2, 2));
}

#[test]
fn what_other_streams_use_is_not_given_out_anew() {
    let rig = Rig::new(1 << 30);
    let side = rig.stream();
    let mut recording = Recording::new();
    for _ in 0..3 {
        let request = recording.allocate(4 * MIB, 0).unwrap();
        recording.free(request).unwrap();
    }
    let plan = Plan::make(&recording, Shape::Iteration, &limits(), &mut |_| true).unwrap();
    assert_eq!(plan.height(), 4 * MIB);
    rig.cuda.set_plan(Some(Arc::new(plan)), 0).unwrap();
    let first = rig.allocate(4 * MIB);
    let place = address(&first);
    rig.cuda.record_stream(&first, side).unwrap();
    rig.sim.take_calls();
    crate::support::fill(&*rig.sim, c10_cuda::driver::DevicePtr(place), 1, 4 * MIB, rig.handle(side))
        .unwrap();
    drop(first);
    let second = rig.allocate(4 * MIB);
    assert_ne!(address(&second), place);
    let segment = rig.cuda.snapshot(false).segments.into_iter().find(|s| s.address.0 == place).unwrap();
    assert_eq!(segment.blocks[0].state, BlockState::ActivePendingFree);
    assert_eq!((segment.total_size, segment.allocated_size), (4 * MIB, 0));
    let text = rig.cuda.set_plan(None, 0).unwrap_err().to_string();
    assert_eq!(text, "set_plan: blocks that the plan of device 0 has placed are in use");
    rig.sim.complete_all();
    assert_eq!(address(&rig.allocate(4 * MIB)), place);
    // A second stream has no lane here.
    let there = rig.cuda.allocate_on(4 * MIB, side).unwrap();
    assert_ne!(address(&there), place);
    assert_eq!(stats(&rig).outside, 2);
    rig.cuda.set_plan(None, 0).unwrap();
    assert_eq!(rig.cuda.plan_stats(0).unwrap(), None);
}

#[test]
fn each_stream_has_its_lane() {
    let rig = Rig::new(1 << 30);
    let side = rig.stream();
    let mut recording = Recording::new();
    let a = recording.allocate(3 * MIB, 100).unwrap();
    recording.free(a).unwrap();
    let b = recording.allocate(2 * MIB, 200).unwrap();
    recording.free(b).unwrap();
    let plan = Plan::make(&recording, Shape::Iteration, &limits(), &mut |_| true).unwrap();
    assert_eq!((plan.lanes(), plan.height()), (2, 5 * MIB));
    rig.cuda.set_plan(Some(Arc::new(plan)), 0).unwrap();
    let place = |ptr: &DataPtr| address(ptr) - rig.cuda.base_allocation(ptr).unwrap().0.0;
    for _ in 0..3 {
        let ours = rig.allocate(3 * MIB);
        assert_eq!(place(&ours), 0);
        drop(ours);
        let theirs = rig.cuda.allocate_on(2 * MIB, side).unwrap();
        assert_eq!(place(&theirs), 3 * MIB);
    }
    assert_eq!(stats(&rig), PlanStats { planned: 6, laps: 2, ..PlanStats::default() });
    let segments = rig.cuda.snapshot(false).segments;
    let tiles: Vec<_> = segments.iter().map(|s| (s.total_size, s.stream == rig.handle(side))).collect();
    assert_eq!(tiles, [(3 * MIB, false), (3 * MIB, true)], "whole pages in all");
}

#[test]
fn the_arena_comes_and_goes_with_the_cache() {
    let rig = Rig::new(1 << 30);
    let mut program = Program::new(&rig);
    let plan = planned(&rig, &mut program);
    let bytes = plan.height().next_multiple_of(2 * MIB);
    program.gradients.clear();
    rig.cuda.set_plan(Some(plan), 0).unwrap();
    let without = rig.reserved();
    rig.memory_calls();
    program.iterate(&rig);
    assert_eq!(rig.memory_calls(), [format!("+{bytes}")]);
    assert_eq!(rig.reserved(), without + bytes);
    assert_eq!(rig.driver_used(), without + bytes);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), without + bytes, "the gradients are in it");
    let gradient = rig.cuda.base_allocation(&program.gradients[0]).unwrap().0;
    assert!(!rig.cuda.release_segment(gradient, 0).unwrap());
    program.gradients.clear();
    assert!(rig.cuda.release_segment(gradient, 0).unwrap());
    assert_eq!(rig.driver_used(), without);
    // Somebody wanted it gone: it is not taken again before the next iteration.
    drop(rig.allocate(MIB));
    assert_eq!(stats(&rig).planned, 24);
    rig.cuda.begin_iteration(0).unwrap();
    program.iterate(&rig);
    assert_eq!(stats(&rig).planned, 48);
    program.gradients.clear();
    rig.cuda.empty_cache().unwrap();
    program.iterate(&rig);
    assert_eq!(stats(&rig).planned, 72, "emptying the cache forbids nothing");
}

#[test]
fn where_there_is_no_memory_for_the_arena_the_allocator_does_without() {
    let mut recording = Recording::new();
    let request = recording.allocate(64 * MIB, 0).unwrap();
    recording.free(request).unwrap();
    let plan = Arc::new(Plan::make(&recording, Shape::Iteration, &limits(), &mut |_| true).unwrap());
    let config = Config { placement: Placement::Planned(plan), ..Config::default() };
    // The device, the fraction, the driver.
    let rig = Rig::with_config(SimConfig::with_bytes(50 * MIB), config.clone());
    drop(rig.allocate(40 * MIB));
    assert_eq!(stats(&rig), PlanStats::default());
    assert_eq!(rig.cuda.allocate(64 * MIB).unwrap_err().kind(), ErrorKind::OutOfMemory);

    let rig = Rig::with_config(SimConfig::with_bytes(100 * MIB), config.clone());
    rig.cuda.set_memory_fraction(0.5, 0).unwrap();
    rig.memory_calls();
    let held = rig.allocate(40 * MIB);
    assert_eq!(rig.memory_calls(), ["+41943040"]);
    rig.cuda.set_memory_fraction(1.0, 0).unwrap();
    rig.cuda.begin_iteration(0).unwrap();
    // What is cached goes first.
    drop(held);
    drop(rig.allocate(64 * MIB));
    assert_eq!(rig.memory_calls(), ["!67108864", "-0", "+67108864"]);
    assert_eq!(stats(&rig).planned, 1);

    let rig = Rig::with_config(SimConfig::with_bytes(100 * MIB), config);
    let broken = FaultRule::new("malloc", FaultWhen::Every(1), Status::NotPermitted).times(1);
    rig.sim.set_faults(FaultPlan::new().rule(broken));
    let error = rig.cuda.allocate(64 * MIB).unwrap_err();
    assert_eq!((error.kind(), error.driver().unwrap().status), (ErrorKind::Driver, Status::NotPermitted));
    assert_eq!(rig.sim.memory_info(0).unwrap().free, 100 * MIB);
    drop(rig.allocate(30 * MIB));
    assert_eq!(stats(&rig), PlanStats::default());
    rig.cuda.begin_iteration(0).unwrap();
    rig.cuda.empty_cache().unwrap();
    drop(rig.allocate(64 * MIB));
    assert_eq!(stats(&rig).planned, 1);
}

#[test]
fn what_is_recorded_live_is_what_the_trace_says() {
    let rig = Rig::new(1 << 30);
    let mut program = Program::new(&rig);
    program.iterate(&rig);
    let history = History { max_entries: 1000, clear: true, ..History::default() };
    rig.cuda.record_history(Some(history));
    rig.cuda.begin_recording(0).unwrap();
    program.iterate(&rig);
    let live = rig.cuda.end_recording(0).unwrap();
    let entries = rig.cuda.snapshot(true).device_traces.remove(0);
    let read = Recording::from_trace(&entries, rig.cuda.config().roundup_power2_divisions).unwrap();
    assert_eq!(live.len(), 24);
    assert_eq!(read.fingerprint(), live.fingerprint());
    let error = rig.cuda.end_recording(0).unwrap_err();
    assert_eq!(error.to_string(), "end_recording: nothing is recorded on device 0");
    let handed_out = entries.iter().find(|entry| entry.action == TraceAction::Alloc).unwrap();
    let twice = [handed_out.clone(), handed_out.clone()];
    assert!(Recording::from_trace(&twice, rig.cuda.config().roundup_power2_divisions).is_err());
}

/// What a program asks for in the end: weights, and laps of sixteen requests, of which one is kept for a lap. Each with
/// the number of requests after which it is given back.
fn laps(parts: usize) -> Vec<(u64, Option<usize>)> {
    let weights = (1..=5).map(|n| (n * 4096, None));
    let part = |part: usize| {
        let at = part % 16;
        (at as u64 * 512 + 100_000, Some(if at == 3 { 16 } else { 1 + at % 3 }))
    };
    weights.chain((0..parts).map(part)).collect()
}

/// Runs requests, each with what it holds for as long as it is held.
fn run<T>(requests: &[(u64, Option<usize>)], mut ask: impl FnMut(u64) -> T, mut free: impl FnMut(T)) {
    let mut held: Vec<(usize, T)> = Vec::new();
    for (at, (bytes, later)) in requests.iter().enumerate() {
        while let Some(due) = held.iter().position(|(until, _)| *until <= at) {
            free(held.remove(due).1);
        }
        let block = ask(*bytes);
        held.push((later.map_or(usize::MAX, |later| at + later), block));
    }
}

#[test]
fn a_history_that_was_cut_off_anywhere_goes_on_where_it_repeats() {
    for parts in [40, 45, 50, 63] {
        let recording = std::cell::RefCell::new(Recording::new());
        let ask = |bytes| recording.borrow_mut().allocate(bytes, 0).unwrap();
        run(&laps(parts), ask, |request| recording.borrow_mut().free(request).unwrap());
        let plan = Plan::make(&recording.into_inner(), Shape::Repeating, &limits(), &mut |_| true).unwrap();
        assert_eq!(plan.period(), Some(16), "{parts} parts");
        let config = Config { placement: Placement::Planned(Arc::new(plan)), ..Config::default() };
        let rig = Rig::with_config(SimConfig::with_bytes(1 << 30), config);
        run(&laps(200), |bytes| rig.allocate(bytes), drop);
        let now = stats(&rig);
        assert_eq!((now.planned, now.resynchronised), (205, 0), "{parts} parts: {now:?}");
    }
}
