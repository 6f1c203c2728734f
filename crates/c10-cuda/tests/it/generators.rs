//! `CudaGenerator`, and the random state of graphs.
#![expect(unsafe_code, reason = "replays graphs whose memory is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use c10_core::DataPtr;
use c10_cuda::driver::sim::{FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, DevicePtr, Status};
use c10_cuda::{
    CaptureOptions, Config, CudaGenerator, CudaGraph, CudaStream, DEFAULT_SEED, Error, ErrorKind,
    PhiloxState, Runtime,
};

use crate::rig::{GIB, MIB, Rig, address};
use crate::support::{launch, range};

fn generator() -> CudaGenerator {
    CudaGenerator::new(&Runtime::new(SimDriver::new(SimConfig::with_bytes(MIB))), 0).unwrap()
}

#[track_caller]
fn invalid<T>(result: Result<T, Error>) {
    assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
}

#[test]
fn draws_move_the_offset_in_multiples_of_4() {
    let generator = generator();
    assert_eq!((generator.seed(), generator.offset().unwrap()), (DEFAULT_SEED, 0));
    for (increment, before) in [(4, 0), (1, 4), (0, 8), (6, 8), (8, 16)] {
        let state = generator.philox_state(increment).unwrap();
        assert_eq!(state, PhiloxState::Numbers { seed: DEFAULT_SEED, offset: before });
    }
    assert_eq!(generator.offset().unwrap(), 24);
    let same = generator.clone();
    same.set_seed(9).unwrap();
    assert_eq!((generator.seed(), generator.offset().unwrap()), (9, 0), "clones are one");
    generator.set_offset(u64::MAX - 3).unwrap();
    invalid(generator.philox_state(4));
    invalid(generator.philox_state(u64::MAX));
    assert_eq!(generator.offset().unwrap(), u64::MAX - 3, "nothing is taken");
    invalid(generator.set_offset(6));
}

#[test]
fn its_bytes_are_pytorchs() {
    let generator = generator();
    generator.set_seed(0x0102).unwrap();
    generator.philox_state(12).unwrap();
    let bytes = generator.state_bytes().unwrap();
    assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0]);
    generator.set_state_bytes(&[5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!((generator.seed(), generator.offset().unwrap()), (5, 8));
    generator.set_state_bytes(&bytes[..8]).unwrap();
    assert_eq!((generator.seed(), generator.offset().unwrap()), (0x0102, 0));
    for wrong in [&bytes[..0], &bytes[..15], &[0; 24], &[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]] {
        invalid(generator.set_state_bytes(wrong));
    }
    assert_eq!((generator.seed(), generator.offset().unwrap()), (0x0102, 0));
}

#[test]
fn each_device_has_a_default_one() {
    let runtime = Runtime::new(SimDriver::new(SimConfig::with_devices(2, MIB)));
    let (a, b) = (runtime.default_generator(0).unwrap(), runtime.default_generator(1).unwrap());
    a.set_seed(1).unwrap();
    assert_eq!((runtime.default_generator(0).unwrap().seed(), b.seed()), (1, DEFAULT_SEED));
    assert_eq!((a.device(), b.device()), (0, 1));
    invalid(runtime.default_generator(2));
    invalid(CudaGenerator::new(&runtime, 2));
}

/// A graph that draws twice from a generator, and where each replay writes seed, offset and place of either draw.
fn drawing(
    rig: &Rig,
    on: &CudaStream,
    generator: &CudaGenerator,
    options: CaptureOptions,
) -> (CudaGraph, DataPtr) {
    let out = rig.allocate(48);
    let (graph, ()) = CudaGraph::capture(&rig.cuda, on, options, |_| {
        for (at, increment) in [(0, 3), (24, 8)] {
            draw(rig, on, generator.philox_state(increment)?, DevicePtr(address(&out) + at));
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    (graph, out)
}

/// What a kernel makes of its random state: three numbers of 8 bytes.
fn draw(rig: &Rig, on: &CudaStream, state: PhiloxState, out: DevicePtr) {
    let PhiloxState::Captured { seed, offset, offset_intragraph } = state else {
        panic!("{state:?} in a capture")
    };
    let (reads, writes) = ([range(seed, 8), range(offset, 8)], [range(out, 24)]);
    launch(&*rig.sim, on.handle(), "draw", &reads, &writes, move |memory| {
        for (index, at) in [(0, 0), (1, 8)] {
            let mut bytes = [0; 8];
            memory.read(index, 0, &mut bytes);
            memory.write(0, at, &bytes);
        }
        memory.write(0, 16, &offset_intragraph.to_le_bytes());
    })
    .unwrap();
}

#[track_caller]
fn replayed(rig: &Rig, graph: &CudaGraph, out: &DataPtr) -> [u64; 6] {
    // SAFETY: the output is there until the work is done, which is waited for.
    unsafe { graph.replay() }.unwrap();
    rig.runtime.synchronize(0).unwrap();
    let mut bytes = [0; 48];
    rig.sim.peek(DevicePtr(address(out)), &mut bytes).unwrap();
    std::array::from_fn(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte])))
}

#[test]
fn every_replay_draws_other_numbers() {
    let rig = Rig::new(GIB);
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = CudaGenerator::new(&rig.runtime, 0).unwrap();
    generator.set_seed(5).unwrap();
    generator.philox_state(100).unwrap();
    let options = CaptureOptions { generators: vec![generator.clone()], ..CaptureOptions::default() };
    let (graph, out) = drawing(&rig, &on, &generator, options);
    assert_eq!(generator.offset().unwrap(), 100, "a capture draws nothing itself");
    assert_eq!(replayed(&rig, &graph, &out), [5, 100, 0, 5, 100, 4]);
    assert_eq!(replayed(&rig, &graph, &out), [5, 112, 0, 5, 112, 4]);
    generator.philox_state(4).unwrap();
    assert_eq!(replayed(&rig, &graph, &out), [5, 128, 0, 5, 128, 4], "others draw in between");
    generator.set_seed(6).unwrap();
    assert_eq!(replayed(&rig, &graph, &out), [6, 0, 0, 6, 0, 4]);
    assert_eq!(generator.offset().unwrap(), 12);
}

#[test]
fn replays_that_are_under_way_keep_their_numbers() {
    let rig = Rig::new(GIB);
    let streams = [0, 0].map(|device| CudaStream::from_pool(&rig.runtime, device, 0).unwrap());
    let generator = rig.runtime.default_generator(0).unwrap();
    let sums = rig.allocate(8);
    let zeroed = crate::support::fill(&*rig.sim, DevicePtr(address(&sums)), 0, 8, streams[0].handle());
    zeroed.unwrap();
    let (graph, ()) = CudaGraph::capture(&rig.cuda, &streams[0], CaptureOptions::default(), |_| {
        let PhiloxState::Captured { offset, .. } = generator.philox_state(4)? else { panic!("not captured") };
        let sum = range(DevicePtr(address(&sums)), 8);
        launch(&*rig.sim, streams[0].handle(), "sum", &[range(offset, 8), sum], &[sum], |memory| {
            let (mut offset, mut sum) = ([0; 8], [0; 8]);
            memory.read(0, 0, &mut offset);
            memory.read(1, 0, &mut sum);
            let sum = u64::from_le_bytes(sum) * 100 + u64::from_le_bytes(offset);
            memory.write(0, 0, &sum.to_le_bytes());
        })?;
        Ok::<_, Error>(())
    })
    .unwrap();
    for at in [0, 1, 1, 0] {
        // SAFETY: the sum is there.
        unsafe { graph.replay_on(&streams[at]) }.unwrap();
    }
    rig.runtime.synchronize(0).unwrap();
    let mut bytes = [0; 8];
    rig.sim.peek(DevicePtr(address(&sums)), &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 4_08_12, "offsets 0, 4, 8 and 12 in turn");
}

#[test]
fn the_default_generator_needs_no_registration() {
    let rig = Rig::new(GIB);
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = rig.runtime.default_generator(0).unwrap();
    let options = || CaptureOptions { generators: vec![generator.clone()], ..CaptureOptions::default() };
    for options in [CaptureOptions::default(), options()] {
        let (graph, out) = drawing(&rig, &on, &generator, options);
        generator.set_offset(40).unwrap();
        assert_eq!(replayed(&rig, &graph, &out), [DEFAULT_SEED, 40, 0, DEFAULT_SEED, 40, 4]);
    }
    // One that draws nothing has no memory for it.
    rig.cuda.empty_cache().unwrap();
    let empty = CudaGraph::begin(&rig.cuda, &on, CaptureOptions::default()).unwrap().end().unwrap();
    assert!(rig.cuda.snapshot_of(empty.pool(), false).segments.is_empty());
}

#[test]
fn misuse_in_a_capture_is_told() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::default());
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = CudaGenerator::new(&rig.runtime, 0).unwrap();
    let other = CudaGenerator::new(&rig.runtime, 1).unwrap();
    let options = CaptureOptions { generators: vec![other.clone()], ..CaptureOptions::default() };
    let wrong = CudaGraph::begin(&rig.cuda, &on, options).unwrap_err();
    insta::assert_snapshot!(wrong, @"a generator of device 1 cannot be registered with a graph of device 0");
    let graph = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |capture| {
        let unregistered = generator.philox_state(4).unwrap_err();
        insta::assert_snapshot!(unregistered, @"Attempt to increase offset for a CUDA generator not in capture mode: register it with the graph, in `CaptureOptions::generators`.");
        let errors = [
            unregistered,
            generator.offset().unwrap_err(),
            generator.set_offset(0).unwrap_err(),
            generator.state_bytes().unwrap_err(),
            generator.set_state_bytes(&[0; 16]).unwrap_err(),
            generator.set_seed(1).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Capture));
        insta::assert_snapshot!(errors[1], @"Cannot call CUDAGeneratorImpl::get_offset during CUDA graph capture: what is captured runs later, and more than once");
        generator.set_seed(generator.seed())?;
        assert_eq!(
            other.philox_state(4)?,
            PhiloxState::Numbers { seed: DEFAULT_SEED, offset: 0 },
            "of another device"
        );
        assert!(capture.is_sound()?);
        // Another thread, whose current stream does not capture, draws as ever.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(
                    generator.philox_state(4).unwrap(),
                    PhiloxState::Numbers { seed: DEFAULT_SEED, offset: 0 }
                )
            });
        });
        Ok::<_, Error>(())
    });
    graph.unwrap();
    assert_eq!(generator.offset().unwrap(), 4);
}

#[test]
fn captures_at_the_same_time_have_their_own_state() {
    let rig = Rig::new(GIB);
    let generator = rig.runtime.default_generator(0).unwrap();
    let barrier = std::sync::Barrier::new(2);
    let graphs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
                    let options =
                        CaptureOptions { mode: CaptureMode::ThreadLocal, ..CaptureOptions::default() };
                    let capture = CudaGraph::begin(&rig.cuda, &on, options).unwrap();
                    barrier.wait();
                    let states = [generator.philox_state(4).unwrap(), generator.philox_state(4).unwrap()];
                    barrier.wait();
                    (capture.end().unwrap(), states)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seeds: Vec<_> = graphs
        .iter()
        .map(|(_, states)| match states {
            [
                PhiloxState::Captured { seed, offset_intragraph: 0, .. },
                PhiloxState::Captured { seed: again, offset_intragraph: 4, .. },
            ] if seed == again => *seed,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn a_replay_that_fails_draws_nothing() {
    let rig = Rig::new(GIB);
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = rig.runtime.default_generator(0).unwrap();
    let (graph, out) = drawing(&rig, &on, &generator, CaptureOptions::default());
    for call in ["copy", "host_alloc", "graph_launch", "event_create"] {
        rig.sim.set_faults(FaultRule::nth(call, 1, Status::Other(7)).into());
        // SAFETY: the output is there.
        let failed = unsafe { graph.replay() };
        if call == "event_create" {
            // Only the first launch on a stream makes one.
            continue;
        }
        assert!(failed.is_err(), "{call}");
        assert_eq!(generator.offset().unwrap(), 0, "{call}");
    }
    rig.sim.set_faults(Default::default());
    generator.set_offset(u64::MAX - 3).unwrap();
    // SAFETY: as above.
    invalid(unsafe { graph.replay() });
    assert_eq!(generator.offset().unwrap(), u64::MAX - 3);
    generator.set_offset(0).unwrap();
    assert_eq!(replayed(&rig, &graph, &out), [DEFAULT_SEED, 0, 0, DEFAULT_SEED, 0, 4]);
}

#[test]
fn an_update_draws_as_the_other_graph_does() {
    let rig = Rig::new(GIB);
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = CudaGenerator::new(&rig.runtime, 0).unwrap();
    let default = rig.runtime.default_generator(0).unwrap();
    default.set_seed(1).unwrap();
    generator.set_seed(2).unwrap();
    let (mut graph, _) = drawing(&rig, &on, &default, CaptureOptions::default());
    let options =
        CaptureOptions { generators: vec![generator.clone()], keep_graph: true, ..CaptureOptions::default() };
    let (other, out) = drawing(&rig, &on, &generator, options);
    graph.update(&other).unwrap();
    drop(other);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(replayed(&rig, &graph, &out), [2, 0, 0, 2, 0, 4]);
    assert_eq!((default.offset().unwrap(), generator.offset().unwrap()), (0, 12));
}

#[test]
fn the_end_of_a_graph_waits_for_no_replay() {
    let rig = Rig::new(GIB);
    let on = CudaStream::from_pool(&rig.runtime, 0, 0).unwrap();
    let generator = rig.runtime.default_generator(0).unwrap();
    let (graph, out) = drawing(&rig, &on, &generator, CaptureOptions::default());
    for _ in 0..3 {
        // SAFETY: the output is there until the end.
        unsafe { graph.replay_on(&on) }.unwrap();
    }
    drop(graph);
    assert!(!on.query().unwrap());
    rig.cuda.empty_cache().unwrap();
    let mut bytes = [0; 16];
    rig.sim.peek(DevicePtr(address(&out)), &mut bytes).unwrap();
    assert_eq!(bytes[8], 24, "the third replay began there");
    assert!(rig.sim.take_faults().is_empty());
}
