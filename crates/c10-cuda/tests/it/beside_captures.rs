//! What is freed, dropped or asked for while a capture is under way does not spoil it, whoever does it: memory of other
//! processes, a second allocator, memory with caching off, the driver's pools, pinned memory, an allocator's end.
#![expect(unsafe_code, reason = "opens memory that the test's other process keeps, and frees raw memory")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use c10_core::DataPtr;
use c10_cuda::driver::sim::{Completion, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, Checked, Driver, Record, StreamHandle};
use c10_cuda::{
    CachingAllocator, CaptureOptions, Config, CudaGraph, CudaStream, Error, PinnedAllocator, PinnedConfig,
    Runtime,
};

use crate::rig::{GIB, MIB, Rig};
use crate::support::launch;

/// Does something in a capture of the same thread, and in one of another, and says what is left to see then. Neither
/// capture is spoilt.
#[track_caller]
fn beside<T>(rig: &Rig, mut make: impl FnMut() -> T, mut work: impl FnMut(T) + Send)
where
    T: Send,
{
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    for same_thread in [true, false] {
        let given = make();
        let (graph, ()) = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |capture| {
            launch(&*rig.sim, on.handle(), "node", &[], &[], |_| {})?;
            if same_thread {
                work(given);
            } else {
                std::thread::scope(|scope| {
                    scope.spawn(|| work(given));
                });
            }
            assert!(capture.is_sound()?, "on the same thread: {same_thread}");
            Ok::<_, Error>(())
        })
        .unwrap();
        assert!(!graph.is_empty());
    }
    assert_eq!(rig.runtime.take_drop_error(), None);
}

fn second(rig: &Rig, settings: &str) -> CachingAllocator {
    CachingAllocator::with_runtime(rig.runtime.clone(), Config::parse(settings).unwrap()).unwrap()
}

#[test]
fn memory_of_another_process_is_closed_when_captures_are_over() {
    for settings in ["", "expandable_segments:True"] {
        let sim = SimDriver::new(SimConfig::with_bytes(GIB).log_calls(1000));
        let theirs = CachingAllocator::new(sim.new_process(), Config::parse(settings).unwrap()).unwrap();
        let block = theirs.allocate(30 * MIB).unwrap();
        let shared = theirs.share_ipc_handle(&block).unwrap();
        let rig = rig_on(&sim);
        // SAFETY: the other process keeps the memory.
        let open = || unsafe { rig.cuda.open_ipc_handle(0, &shared.handle) }.unwrap();
        beside(&rig, open, |opened| {
            drop(opened);
            assert_eq!(rig.cuda.open_ipc_handles(), 1, "it stays open");
            // Whoever opens it meanwhile has it at once.
            drop(open());
        });
        assert_eq!(rig.cuda.open_ipc_handles(), 0, "{settings}");
    }
}

fn rig_on(sim: &Arc<SimDriver>) -> Rig {
    let runtime = Runtime::new(Arc::clone(sim) as Arc<dyn Driver>);
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::default()).unwrap();
    Rig { sim: Arc::clone(sim), runtime, cuda, watch: crate::rig::Watch::new(sim) }
}

#[test]
fn a_second_allocator_on_the_same_runtime_goes_on() {
    for settings in ["", "expandable_segments:True", "max_split_size_mb:20"] {
        let rig = Rig::new(256 * MIB);
        let other = second(&rig, settings);
        let side = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
        beside(
            &rig,
            || other.allocate_on(30 * MIB, &side).unwrap(),
            |held| {
                let default = CudaStream::default_of(&rig.runtime, 0).unwrap();
                other.record_stream(&held, &default).unwrap();
                drop(held);
                drop(other.allocate_on(40 * MIB, &side).unwrap());
                assert!(other.allocate_on(400 * MIB, &side).is_err());
                other.empty_cache().unwrap();
            },
        );
        other.check_invariants();
        other.empty_cache().unwrap();
        assert_eq!(other.memory_reserved(0).unwrap(), 0);
    }
}

#[test]
fn an_allocator_ends() {
    for settings in ["", "expandable_segments:True"] {
        let rig = Rig::new(256 * MIB);
        let runtime = rig.runtime.clone();
        let side = CudaStream::from_pool(&runtime, 0, 0).unwrap();
        let make = || {
            let other = second(&rig, settings);
            let (held, used) = (other.allocate(30 * MIB).unwrap(), other.allocate(100).unwrap());
            other.record_stream(&used, &side).unwrap();
            drop(used);
            (other, held)
        };
        beside(&rig, make, |(other, last)| {
            drop(other);
            drop(last);
            assert!(rig.driver_used() >= 30 * MIB, "its memory waits for the end");
        });
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.driver_used(), 0, "{settings}");
    }
}

/// The last block of an allocator whose stream is gone can be freed only once the device was waited for.
#[test]
fn an_allocator_ends_whose_device_is_to_be_waited_for() {
    let rig = Rig::new(256 * MIB);
    let make = || {
        let other = second(&rig, "");
        let handle = rig.sim.stream_create(0, 0).unwrap();
        let block = other.allocate(30 * MIB).unwrap();
        other.record_stream(&block, rig.runtime.external_stream(handle).unwrap()).unwrap();
        rig.sim.stream_destroy(handle).unwrap();
        (other, block)
    };
    beside(&rig, make, drop);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn memory_with_caching_off_comes_and_goes() {
    let rig = Rig::new(256 * MIB);
    let other = second(&rig, "");
    other.enable(false);
    beside(
        &rig,
        || (other.allocate(MIB).unwrap(), other.raw_alloc(MIB).unwrap()),
        |(held, raw)| {
            drop(held);
            // SAFETY: nothing uses it.
            unsafe { other.raw_delete(raw) }.unwrap();
            drop(other.allocate(MIB).unwrap());
        },
    );
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn the_drivers_pools_go_on_beside_a_capture_of_another_allocator() {
    let rig = Rig::new(256 * MIB);
    let other = second(&rig, "backend:cudaMallocAsync");
    let side = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let make = || {
        let gone = rig.sim.stream_create(0, 0).unwrap();
        let blocks = [(); 3].map(|()| other.allocate_on(MIB, &side).unwrap());
        other.record_stream(&blocks[0], CudaStream::default_of(&rig.runtime, 0).unwrap()).unwrap();
        other.record_stream(&blocks[1], rig.runtime.external_stream(gone).unwrap()).unwrap();
        rig.sim.stream_destroy(gone).unwrap();
        blocks
    };
    beside(&rig, make, |blocks| {
        drop(blocks);
        drop(other.allocate_on(MIB, &side).unwrap());
        assert!(other.allocate_on(400 * MIB, &side).is_err());
        other.empty_cache().unwrap();
        // On the stream that is current, which captures where this is its thread: then it is the graph's.
        drop(other.allocate(MIB).unwrap());
    });
    other.check_invariants();
    // What waited for the end goes with the next request.
    drop(other.allocate(100).unwrap());
    other.empty_cache().unwrap();
    assert_eq!(rig.sim.mem_pool_info(0).unwrap().used, 0);
    assert_eq!(rig.sim.mem_pool_info(0).unwrap().reserved, 0);
    // The allocator's end waits too.
    beside(
        &rig,
        || second(&rig, "backend:cudaMallocAsync"),
        |ending| {
            let last = ending.allocate_on(MIB, &side).unwrap();
            drop(ending);
            drop(last);
        },
    );
    assert_eq!(rig.sim.mem_pool_info(0).unwrap().used, 0);
}

#[test]
fn pinned_memory_ends_beside_a_capture() {
    let rig = Rig::new(256 * MIB);
    let side = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    for reserve_segment_size in [0, MIB] {
        let make = || {
            let config = PinnedConfig { reserve_segment_size, ..PinnedConfig::default() };
            let pinned = PinnedAllocator::new(rig.runtime.clone(), config).unwrap();
            let used = pinned.allocate(4096).unwrap();
            pinned.record_event(&used, &side).unwrap();
            (pinned, used)
        };
        beside(&rig, make, |(pinned, used)| {
            drop(used);
            pinned.empty_cache().unwrap();
            drop(pinned);
        });
    }
    assert_eq!(rig.sim.call_count("host_alloc"), rig.sim.call_count("host_free"));
}

/// One round of what another thread does: memory comes, is used on another stream, and goes.
fn churn(cuda: &CachingAllocator, device: u8) -> Result<(), Error> {
    let runtime = cuda.runtime();
    let (main, side) = (runtime.stream_from_pool(device, -2)?, runtime.stream_from_pool(device, -1)?);
    let block = cuda.allocate_on(3 * MIB, main)?;
    cuda.record_stream(&block, side)?;
    drop(block);
    drop(cuda.allocate_on(3 * MIB, main)?);
    cuda.empty_cache()
}

/// Captures begin and end while other threads make calls that a capture forbids: none of them is spoilt, at whatever
/// moment it begins.
#[test]
fn captures_that_begin_between_the_calls_of_others_are_sound() {
    for (device, own, settings) in [
        (0, true, ""),
        (0, false, ""),
        (1, false, ""),
        (0, false, "expandable_segments:True"),
        (0, false, "backend:cudaMallocAsync"),
    ] {
        let sim = SimDriver::new(SimConfig::with_devices(2, GIB).completion(Completion::Eager));
        let runtime = Runtime::new(sim.clone() as Arc<dyn Driver>);
        let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::default()).unwrap();
        let config = Config::parse(settings).unwrap();
        let other = CachingAllocator::with_runtime(runtime.clone(), config).unwrap();
        let theirs = if own { &cuda } else { &other };
        let pinned = PinnedAllocator::new(runtime.clone(), Default::default()).unwrap();
        let stop = AtomicBool::new(false);
        let on = CudaStream::from_pool(&runtime, 0, 0).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        churn(theirs, device).unwrap();
                        drop(pinned.allocate(5000).unwrap());
                        pinned.empty_cache().unwrap();
                    }
                });
            }
            let spoilt = (0..60).find_map(|round| {
                let captured = CudaGraph::capture(&cuda, &on, CaptureOptions::default(), |_| {
                    drop(cuda.allocate(4096)?);
                    launch(&*sim, on.handle(), "node", &[], &[], |_| {})?;
                    Ok::<_, Error>(())
                });
                let ended = captured.and_then(|_| cuda.empty_cache());
                ended.err().map(|error| (round, error))
            });
            stop.store(true, Ordering::Relaxed);
            assert!(spoilt.is_none(), "device {device}, own {own}, {settings:?}: {spoilt:?}");
        });
        assert_eq!(runtime.take_drop_error(), None);
    }
}

/// Captures are the driver's, whichever of its runtimes begins them, and however it is wrapped.
#[test]
fn another_runtime_of_the_driver_goes_on() {
    let rig = Rig::new(256 * MIB);
    for driver in [Arc::clone(&rig.sim) as Arc<dyn Driver>, Record::new(Checked::new(rig.sim.clone()))] {
        let runtime = Runtime::new(driver);
        let other = CachingAllocator::with_runtime(runtime.clone(), Config::default()).unwrap();
        let pinned = PinnedAllocator::new(runtime.clone(), PinnedConfig::default()).unwrap();
        let [main, side] = [(); 2].map(|()| CudaStream::from_pool(&runtime, 0, 0).unwrap());
        let make = || (other.allocate_on(30 * MIB, &main).unwrap(), pinned.allocate(5000).unwrap());
        beside(&rig, make, |(block, host)| {
            other.record_stream(&block, &side).unwrap();
            pinned.record_event(&host, &side).unwrap();
            drop((block, host));
            drop(other.allocate_on(40 * MIB, &main).unwrap());
            other.empty_cache().unwrap();
            pinned.empty_cache().unwrap();
        });
        other.empty_cache().unwrap();
        assert_eq!(other.memory_reserved(0).unwrap(), 0);
        assert_eq!(runtime.take_drop_error(), None);
    }
}

/// Captures that an allocator was told of, and not of their end, keep nobody waiting once it has ended.
#[test]
fn an_allocator_that_ends_has_no_captures() {
    for settings in ["", "backend:cudaMallocAsync"] {
        let rig = Rig::new(256 * MIB);
        let other = second(&rig, settings);
        (0..2).for_each(|_| other.mark_capture_begin(0).unwrap());
        let held = other.allocate(30 * MIB).unwrap();
        drop(other);
        drop(held);
        assert_eq!((rig.driver_used(), rig.sim.mem_pool_info(0).unwrap().reserved), (0, 0), "{settings}");
        assert_eq!(rig.runtime.take_drop_error(), None);
    }
}

/// A capture that is about to begin, and waits for the call, keeps it from nothing.
#[test]
fn an_allocator_ends_before_a_capture_that_waits_for_that() {
    for settings in ["", "expandable_segments:True", "placement:stitched"] {
        let config = Config::parse(settings).unwrap();
        let sim = SimDriver::new(SimConfig::with_bytes(256 * MIB));
        let other = CachingAllocator::new(sim.clone(), Config::default()).unwrap();
        let cuda = CachingAllocator::new(sim.clone(), config).unwrap();
        let [main, side] = [(); 2].map(|()| CudaStream::from_pool(cuda.runtime(), 0, 0).unwrap());
        let block = cuda.allocate_on(MIB, &main).unwrap();
        cuda.record_stream(&block, &side).unwrap();
        let (ends, is_ending) = mpsc::channel();
        launch(&*sim, side.handle(), "slow", &[], &[], move |_| {
            ends.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        })
        .unwrap();
        drop((main, side, cuda));
        std::thread::scope(|scope| {
            let other = &other;
            scope.spawn(move || {
                is_ending.recv().unwrap();
                other.mark_capture_begin(0).unwrap();
                other.mark_capture_end(0).unwrap();
            });
            // Its stream has ended, so that the device is to be waited for.
            drop(block);
        });
        let info = sim.memory_info(0).unwrap();
        assert_eq!(info.free, info.total, "{settings}");
    }
}

/// A device with streams that are about to capture, and blocks that each uses in turn.
fn used_by<const N: usize>(blocks: usize) -> (Rig, [StreamHandle; N], Vec<DataPtr>) {
    let rig = Rig::new(GIB);
    let streams = [(); N].map(|()| rig.stream());
    let held: Vec<_> = (0..blocks).map(|_| rig.allocate(MIB)).collect();
    for (nth, block) in held.iter().enumerate() {
        rig.cuda.record_stream(block, streams[nth % N]).unwrap();
    }
    let streams = streams.map(|stream| rig.handle(stream));
    for on in streams {
        rig.cuda.mark_capture_begin(0).unwrap();
        rig.sim.stream_begin_capture(on, CaptureMode::Relaxed).unwrap();
    }
    (rig, streams, held)
}

fn end_capture(rig: &Rig, on: StreamHandle) {
    let graph = rig.sim.stream_end_capture(on).unwrap();
    rig.sim.graph_destroy(graph).unwrap();
    rig.cuda.mark_capture_end(0).unwrap();
}

#[test]
fn a_request_asks_for_a_capture_and_not_for_each_block_that_waits_for_it() {
    let asked = |blocks: usize| {
        let (rig, [on], held) = used_by(blocks);
        drop(held);
        let count = |name| rig.sim.call_count(name);
        let (states, records) = (count("capture_state"), count("event_record"));
        (0..10).for_each(|_| drop(rig.allocate(512)));
        let asked = count("capture_state") - states;
        assert_eq!(count("event_record"), records, "all of them wait");
        end_capture(&rig, on);
        drop(rig.allocate(512));
        assert_eq!(count("event_record") - records, blocks as u64);
        rig.cuda.check_invariants();
        asked
    };
    assert_eq!(asked(200), asked(1));
}

#[test]
fn what_waited_for_captures_goes_on_in_the_order_in_which_it_was_freed() {
    let (rig, streams, held) = used_by::<2>(8);
    drop(held);
    streams.into_iter().for_each(|on| end_capture(&rig, on));
    rig.sim.take_calls();
    drop(rig.allocate(512));
    let calls = rig.sim.take_calls().into_iter().filter(|call| call.name == "event_record");
    assert!(calls.filter_map(|call| call.stream).eq((0..8).map(|nth| streams[nth % 2])));

    let (rig, [first, second], held) = used_by::<2>(8);
    drop(held);
    for (on, other) in [(second, first), (first, second)] {
        let records = rig.sim.call_count("event_record");
        end_capture(&rig, on);
        rig.sim.take_calls();
        drop(rig.allocate(512));
        assert_eq!(rig.sim.call_count("event_record") - records, 4, "those of {other:?} do not go with it");
        rig.cuda.check_invariants();
    }
}
