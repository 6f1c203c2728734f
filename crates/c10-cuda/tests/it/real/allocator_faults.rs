#![expect(unsafe_code, reason = "replays a graph whose memory is there")]
//! The allocator over the FFI, where each function of CUDA's that it calls fails once: an error, or as if nothing had
//! been; its books stay right, and nothing is left behind.

use std::collections::BTreeSet;

use c10_core::{DataPtr, EventFlags};
use c10_cuda::driver::Status;
use c10_cuda::{
    CachingAllocator, CaptureOptions, Config, CudaEvent, CudaGraph, CudaStream, Error, ErrorKind, Result,
    Runtime,
};

use super::RealRig;
use super::allocator::at;
use super::faults::FAILURES;
use crate::support::{MIB, fill};

/// How many places of a function in the program are tried.
const PLACES: u64 = 6;

/// The functions that a program here calls, with one of the settings.
const FUNCTIONS: [&str; 38] = [
    "cuCtxGetCurrent",
    "cuCtxGetStreamPriorityRange",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphGetNodes",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemsetD8Async",
    "cuStreamBeginCapture_v2",
    "cuStreamCreateWithPriority",
    "cuStreamEndCapture",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// What CUDA does not take back by any of these nobody can ask it to: the context takes it along.
const ENDS: [&str; 3] = ["cuEventDestroy_v2", "cuGraphDestroy", "cuGraphExecDestroy"];

/// An allocator, and the errors of a program's steps.
struct World<'r> {
    rig: &'r RealRig,
    allocator: CachingAllocator,
    held: Vec<DataPtr>,
    errors: Vec<Error>,
}

impl World<'_> {
    fn step<T>(&mut self, result: Result<T>) -> Option<T> {
        self.allocator.check_invariants();
        result.map_err(|error| self.errors.push(error)).ok()
    }

    fn fill(&mut self, block: usize, on: &CudaStream) {
        let Some(ptr) = self.held.get(block).map(at) else { return };
        let filled = fill(&**self.rig, ptr, 1, 64, on.handle());
        self.step(filled.map_err(Error::from));
    }

    fn allocate(&mut self, bytes: u64, on: &CudaStream) {
        let block = self.allocator.allocate_on(bytes, on);
        let block = self.step(block);
        self.held.extend(block);
    }

    /// Allocates, uses across streams, frees, captures, replays, and empties the cache.
    fn run(&mut self) {
        let runtime = self.allocator.runtime().clone();
        let streams = [(); 2].map(|()| CudaStream::from_pool(&runtime, 0, 0));
        let [Some(main), Some(side)] = streams.map(|stream| self.step(stream)) else { return };
        for bytes in [700, 3 * MIB, 25 * MIB] {
            self.allocate(bytes, &main);
        }
        self.fill(0, &main);
        let ready = CudaEvent::new(&runtime, EventFlags::default());
        if let Some(ready) = self.step(ready) {
            self.step(ready.record(&main));
            self.step(ready.wait(&side));
            self.step(ready.query());
            self.step(ready.synchronize());
        }
        self.fill(0, &side);
        for block in 0..self.held.len() {
            let used = self.allocator.record_stream(&self.held[block], &side);
            self.step(used);
        }
        self.held.truncate(1);
        self.allocator.check_invariants();
        self.allocate(30 * MIB, &main);
        self.graph(&main);
        // More than there is.
        match self.allocator.allocate_on(1 << 40, &main) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => self.allocator.check_invariants(),
            other => assert!(self.step(other).is_none(), "there is no such block"),
        }
        let synchronized = runtime.synchronize(0);
        self.step(synchronized);
        self.held.clear();
        let emptied = self.allocator.empty_cache();
        self.step(emptied);
        self.allocate(5 * MIB, &side);
    }

    fn graph(&mut self, on: &CudaStream) {
        let (rig, allocator) = (self.rig, self.allocator.clone());
        let captured = CudaGraph::capture(&allocator, on, CaptureOptions::default(), |_| {
            let block = allocator.allocate(3 * MIB)?;
            fill(&**rig, at(&block), 2, 64, on.handle())?;
            Ok::<_, Error>(())
        });
        if let Some((mut graph, ())) = self.step(captured) {
            // SAFETY: the memory is the graph's own.
            let replayed = unsafe { graph.replay_on(on) };
            self.step(replayed);
            self.step(graph.reset());
        }
    }

    /// Ends it with no more faults; what nobody was told of comes first.
    fn end(mut self, what: &str) {
        self.held.clear();
        let told = self.allocator.runtime().take_drop_error();
        self.errors.extend(told.map(Error::from));
        self.allocator.runtime().synchronize(0).unwrap_or_else(|error| panic!("{what}: {error}"));
        self.allocator.empty_cache().unwrap_or_else(|error| panic!("{what}: {error}"));
        self.allocator.check_invariants();
        let stats = self.allocator.device_stats(0).unwrap();
        assert_eq!((stats.allocated_bytes.all.current, stats.reserved_bytes.all.current), (0, 0), "{what}");
    }
}

/// Whether an error is of the fault, or of what a fault makes of a capture.
fn is_told(error: &Error, status: Status) -> bool {
    match error.kind() {
        ErrorKind::OutOfMemory => status == Status::OutOfMemory,
        ErrorKind::Capture => true,
        _ => error.driver().is_some_and(|error| error.status == status),
    }
}

/// Whether the program calls the function so often. It fails then.
fn strike(settings: &str, function: &str, nth: u64, (number, status): (u32, Status)) -> Option<bool> {
    let what = format!("{function} #{nth} {status:?} in {settings:?}");
    let (rig, control) = RealRig::over_standin(1)?;
    control.fail(function, nth, number);
    let made = CachingAllocator::new(rig.driver(), Config::parse(settings).unwrap());
    match made {
        Err(error) => assert!(is_told(&error, status), "{what}: {error:?}"),
        Ok(allocator) => {
            let mut world = World { rig: &rig, allocator, held: Vec::new(), errors: Vec::new() };
            world.run();
            let struck = control.fail_clear() == 0;
            for error in &world.errors {
                assert!(struck && is_told(error, status), "{what}: {error:?}");
            }
            if struck && ENDS.contains(&function) {
                let told = !world.errors.is_empty() || world.allocator.runtime().take_drop_error().is_some();
                assert!(told, "{what} went untold");
                rig.forgive_live_handles();
            }
            world.end(&what);
            return Some(struck);
        }
    }
    Some(control.fail_clear() == 0)
}

#[test]
fn a_failure_of_any_function_that_the_allocator_calls_leaves_nothing_behind() {
    for (settings, of_the_other) in [
        (
            "",
            &[
                "cuDeviceGetAttribute",
                "cuDeviceGetName",
                "cuDeviceTotalMem_v2",
                "cuMemAddressFree",
                "cuMemAddressReserve",
                "cuMemCreate",
                "cuMemGetAllocationGranularity",
                "cuMemMap",
                "cuMemRelease",
                "cuMemSetAccess",
                "cuMemUnmap",
                "cuStreamSynchronize",
            ][..],
        ),
        ("expandable_segments:True", &["cuMemAlloc_v2", "cuMemFree_v2"]),
    ] {
        let mut called = BTreeSet::new();
        for function in FUNCTIONS {
            for nth in 1..=PLACES {
                let mut struck = false;
                for failure in FAILURES {
                    let Some(hit) = strike(settings, function, nth, failure) else { return };
                    struck |= hit;
                }
                if !struck {
                    break;
                }
                called.insert(function);
            }
        }
        let not_called: Vec<_> = FUNCTIONS.into_iter().filter(|name| !called.contains(name)).collect();
        assert_eq!(not_called, of_the_other, "{settings}");
    }
}

#[test]
fn what_a_drop_could_not_return_the_next_call_does() {
    for (number, status) in FAILURES {
        let Some((rig, control)) = RealRig::over_standin(1) else { return };
        let runtime = Runtime::new(rig.driver());
        let stream = runtime.current_stream(0).unwrap();
        let event = CudaEvent::new(&runtime, EventFlags::default()).unwrap();
        event.record(stream).unwrap();
        control.fail("cuEventDestroy_v2", 1, number);
        drop(event);
        assert_eq!(control.fail_clear(), 0, "it failed");
        let next = CudaEvent::new(&runtime, EventFlags::default()).unwrap();
        let error = next.record(stream).unwrap_err();
        let met = error.driver().map(|error| (error.call, error.status, error.device));
        assert_eq!(met, Some(("event_destroy", status, 0)), "{error}");
        next.record(stream).unwrap();
        assert_eq!(runtime.take_drop_error(), None, "it is told once");
        // What CUDA did not end is there until its context goes.
        drop(next);
        assert_eq!(control.live_handles(), 1);
        rig.forgive_live_handles();
    }
}
