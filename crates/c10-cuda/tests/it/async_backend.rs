//! The driver's memory pools as the allocator (`backend:cudaMallocAsync`).
#![expect(unsafe_code, reason = "gives raw memory back that nothing uses")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use c10_core::{DataPtr, Stream};
use c10_cuda::driver::sim::{CALL_NAMES, Completion, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Checked, DevicePtr, Driver, Status};
use c10_cuda::{CachingAllocator, Config, ErrorKind, OutOfMemory};

use crate::machine::STRANGE;
use crate::oracle_trace::{Player, play};
use crate::support::MIB;

const CONF: &str = "backend:cudaMallocAsync";

fn config() -> Config {
    Config::parse(CONF).unwrap()
}

/// What PyTorch did is what this does: commands, and the answers of `torch_replay` behind a line of dashes.
#[test]
fn the_calls_are_pytorchs() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/async_backend");
    let mut seen = 0;
    for entry in golden.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (commands, expected) = text.split_once("---\n").unwrap();
        let devices = if commands.starts_with("# devices 2") { 2 } else { 1 };
        let answers = Player::new(devices, 64, CONF).run(commands);
        let answers: Vec<_> = answers.iter().filter(|line| !line.starts_with("device ")).collect();
        for (line, (ours, theirs)) in answers.iter().zip(expected.lines()).enumerate() {
            assert_eq!(*ours, theirs, "{}: answer {line}", path.display());
        }
        assert_eq!(answers.len(), expected.lines().count(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 16);
}

/// D9: what a graph holds counts as used, and PyTorch then stops with an assertion.
#[test]
fn d9_cache_info_answers_beside_a_graphs_memory() {
    let commands =
        "a 1 20971520 0; capture_begin 1 1.0; a 2 41943040 1; a 3 20971520 1; capture_end 1; cache_info";
    let lines = play(64, CONF, commands);
    assert_eq!(lines.last().unwrap(), "cache_info 46137344");
}

/// Where PyTorch asks for 0 bytes, or for ever.
#[test]
fn cache_info_of_a_full_device_and_beyond_the_limit_is_nothing() {
    assert_eq!(play(64, CONF, "a 1 67108864 0; cache_info").last().unwrap(), "cache_info 0");
    assert_eq!(play(64, CONF, "a 1 33554432 0; m 0.1; cache_info").last().unwrap(), "cache_info 0");
}

/// PyTorch frees on a stream that nobody joins: the capture is lost.
#[test]
fn a_block_of_several_streams_is_freed_in_the_capture() {
    let commands =
        "capture_begin 1 1.0; k 1; w 2 1; a 2 100 1; k 2; r 2 2; f 2; w 1 2; capture_end 1; a 3 100 1";
    let lines = play(64, CONF, commands);
    assert_eq!(lines[8..10], ["free 2", "w 1 2"]);
    assert!(lines.contains(&"driver graph_free 2097152 seg0+0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"capture_end 1 nodes 4".to_owned()), "{lines:?}");
}

/// What would spoil the capture in PyTorch waits for its end.
#[test]
fn no_call_disturbs_a_capture() {
    let over = |commands: &str| {
        let lines = play(64, CONF, commands);
        assert!(lines.iter().any(|line| line.starts_with("capture_end 1 nodes")), "{lines:?}");
        lines
    };
    // A use outside the capture.
    over("capture_begin 1 1.0; a 2 100 1; r 2 2; f 2; k 1; capture_end 1; a 3 100 1; e");
    // Memory that a stream had before it came in.
    over("capture_begin 1 1.0; a 2 100 2; k 1; w 2 1; f 2; w 1 2; capture_end 1; a 3 100 1; e");
    // Out of memory elsewhere.
    let lines = over("a 1 20971520 2; f 1; capture_begin 1 1.0; a 2 62914560 2; k 1; capture_end 1");
    assert!(lines.contains(&"driver async_release 20971520 seg0+0".to_owned()), "{lines:?}");
    // Emptying the cache.
    let lines = over("a 1 20971520 2; f 1; capture_begin 1 1.0; e; k 1; capture_end 1");
    let end = lines.iter().position(|line| line.starts_with("driver async_release")).unwrap();
    assert!(end > lines.iter().position(|line| line == "empty_cache").unwrap(), "{lines:?}");
    over("capture_begin 1 1.0; cache_info; k 1; capture_end 1");
}

struct Rig {
    sim: std::sync::Arc<SimDriver>,
    cuda: CachingAllocator,
}

impl Rig {
    fn new(machine: SimConfig) -> Self {
        let sim = SimDriver::new(machine.log_calls(10_000));
        let cuda = CachingAllocator::new(Checked::new(sim.clone()), config()).unwrap();
        Self { sim, cuda }
    }

    fn stream(&self) -> Stream {
        self.cuda.runtime().stream_from_pool(0, 0).unwrap()
    }

    fn allocate(&self, bytes: u64) -> DataPtr {
        self.cuda.allocate(bytes).unwrap()
    }

    fn used(&self) -> u64 {
        self.sim.mem_pool_info(0).unwrap().used
    }
}

fn rig() -> Rig {
    Rig::new(SimConfig::with_devices(2, 64 * MIB))
}

#[test]
fn statistics_are_the_pools() {
    let Rig { cuda, sim, .. } = rig();
    let ptr = cuda.allocate(1000).unwrap();
    assert_eq!(cuda.memory_allocated(0).unwrap(), 1024);
    assert_eq!(cuda.memory_reserved(0).unwrap(), 2 * MIB);
    drop(ptr);
    assert_eq!((cuda.memory_allocated(0).unwrap(), cuda.max_memory_allocated(0).unwrap()), (0, 1024));
    cuda.reset_peak_stats(0).unwrap();
    assert_eq!(cuda.max_memory_allocated(0).unwrap(), 0);
    assert!(cuda.device_stats(2).is_err() && cuda.set_memory_fraction(0.5, 2).is_err());
    assert!(cuda.snapshot(true).segments.is_empty());
    assert_eq!(sim.take_faults(), []);
}

#[test]
fn out_of_memory_has_its_numbers() {
    let Rig { cuda, .. } = rig();
    let _held = cuda.allocate(MIB).unwrap();
    cuda.set_memory_fraction(0.5, 0).unwrap();
    let error = cuda.allocate(40 * MIB).unwrap_err();
    let expected = OutOfMemory {
        device: 0,
        requested: 40 * MIB,
        tried: 40 * MIB,
        device_total: 64 * MIB,
        device_free: 62 * MIB,
        allowed: Some(32 * MIB),
        allocated: MIB,
        reserved: 2 * MIB,
        ..OutOfMemory::default()
    };
    assert_eq!(error.out_of_memory(), Some(&expected));
    insta::assert_snapshot!(error, @"
    Allocation on device 0 would exceed allowed memory. (out of memory)
    Currently allocated     : 1024.00 KiB
    Requested               : 40.00 MiB
    Device limit            : 64.00 MiB
    Free (according to CUDA): 62.00 MiB
    PyTorch limit (set by user-supplied memory fraction)
                            : 32.00 MiB
    ");
}

#[test]
fn memory_outlives_the_allocator_and_goes_back_with_its_last_block() {
    let Rig { sim, cuda } = rig();
    let (first, last) = (cuda.allocate(1000).unwrap(), cuda.allocate(1000).unwrap());
    drop((cuda, first));
    let info = sim.mem_pool_info(0).unwrap();
    assert_eq!((info.used, info.reserved), (1024, 4 * MIB));
    drop(last);
    let info = sim.mem_pool_info(0).unwrap();
    assert_eq!((info.used, info.reserved), (0, 0));
    assert_eq!(sim.call_count("stream_create"), sim.call_count("stream_destroy"));
}

#[test]
fn raw_addresses_are_given_back_once() {
    let Rig { cuda, .. } = rig();
    let owned = cuda.allocate(64).unwrap();
    let raw = cuda.raw_alloc(64).unwrap();
    let side = cuda.runtime().stream_from_pool(0, 0).unwrap();
    cuda.record_stream_raw(raw, side).unwrap();
    assert_eq!(cuda.base_allocation_raw(raw).unwrap(), (raw, 64));
    // SAFETY: nobody uses the memory; what is not a raw call's is refused.
    let delete = |ptr| unsafe { cuda.raw_delete(ptr) };
    for wrong in [DevicePtr(8), raw.offset(1), DevicePtr(owned.as_ptr().addr() as u64)] {
        assert_eq!(delete(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    delete(raw).unwrap();
    assert_eq!(delete(raw).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(cuda.record_stream_raw(raw, side).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let foreign = DataPtr::from_boxed_slice(Box::new([0; 8]));
    assert_eq!(cuda.record_stream(&foreign, side).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_free_waits_for_a_stream_that_is_gone_by_its_device() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    let cuda = CachingAllocator::new(sim.clone(), config()).unwrap();
    let handle = sim.stream_create(0, 0).unwrap();
    let external = cuda.runtime().external_stream(handle).unwrap();
    let (used, own) = (cuda.allocate(64).unwrap(), cuda.allocate_on(64, external).unwrap());
    cuda.record_stream(&used, external).unwrap();
    sim.stream_destroy(handle).unwrap();
    drop((used, own));
    assert_eq!(sim.mem_pool_info(0).unwrap().used, 0);
    assert_eq!(sim.call_count("device_synchronize"), 3);
    assert!(cuda.take_free_error(0).unwrap().is_none());
}

/// Whatever call fails, nothing is lost or freed early, and the allocator goes on.
#[test]
fn a_refused_call_leaves_everything_as_it_was() {
    for name in CALL_NAMES {
        let rig = rig();
        let (side, held) = (rig.stream(), rig.allocate(3 * MIB));
        rig.cuda.record_stream(&held, side).unwrap();
        let plain = rig.allocate(100);
        rig.sim.set_faults(FaultRule::new(name, FaultWhen::Every(1), STRANGE).into());
        let _ = rig.cuda.allocate(1000);
        let _ = rig.cuda.cache_info(0);
        drop((held, plain));
        let _ = rig.cuda.allocate(62 * MIB);
        let _ = rig.cuda.empty_cache();
        let _ = rig.cuda.device_stats(0);
        rig.cuda.check_invariants();
        rig.sim.set_faults(FaultPlan::new());
        drop(rig.allocate(1000));
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.used(), 0, "{name}");
        assert_eq!(rig.cuda.memory_reserved(0).unwrap(), 0, "{name}");
    }
    // The retry fails, too.
    let rig = rig();
    let _held = rig.allocate(40 * MIB);
    rig.sim.set_faults(FaultRule::nth("malloc_async", 2, STRANGE).into());
    assert_eq!(rig.cuda.allocate(40 * MIB).unwrap_err().kind(), ErrorKind::Driver);
    rig.sim.set_faults(FaultRule::nth("mem_pool_trim", 1, Status::NotPermitted).into());
    assert_eq!(rig.cuda.allocate(40 * MIB).unwrap_err().kind(), ErrorKind::Driver);
    rig.sim.set_faults(FaultPlan::new());
    assert_eq!(rig.cuda.allocate(40 * MIB).unwrap_err().kind(), ErrorKind::OutOfMemory);
    rig.cuda.check_invariants();
}

/// The block goes back on the allocator's own stream, for which the retry does not wait.
#[test]
fn a_block_that_two_streams_used_makes_room_for_a_third() {
    let rig = Rig::new(SimConfig::with_bytes(64 * MIB).frugal_pools());
    let (used, third) = (rig.stream(), rig.stream());
    let block = rig.allocate(40 * MIB);
    rig.cuda.record_stream(&block, used).unwrap();
    drop(block);
    let next = rig.cuda.allocate_on(44 * MIB, third).unwrap();
    assert_eq!(rig.used(), 44 * MIB);
    assert_eq!(rig.cuda.allocate_on(44 * MIB, third).unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(next);
    assert_eq!((rig.used(), rig.sim.take_faults()), (0, vec![]));
}

#[test]
fn many_threads_share_it_without_a_race() {
    for seed in 0..4 {
        let machine = SimConfig::with_devices(2, 256 * MIB).race_detector();
        let rig = Rig::new(machine.completion(Completion::Seeded(seed)));
        let streams = [rig.stream(), rig.stream(), rig.stream()];
        std::thread::scope(|scope| {
            for thread in 0..3_usize {
                let (rig, streams) = (&rig, &streams);
                scope.spawn(move || {
                    let runtime = rig.cuda.runtime();
                    runtime.set_current_stream(streams[thread]).unwrap();
                    let own = runtime.handle(streams[thread]).unwrap();
                    for round in 0..100_usize {
                        let ptr = rig.allocate(1000 << (round % 5));
                        let at = DevicePtr(ptr.as_ptr().addr() as u64);
                        crate::support::fill(&*rig.sim, at, round as u8, 1000, own).unwrap();
                        if round % 3 == 0 {
                            let other = streams[(thread + 1) % 3];
                            rig.cuda.record_stream(&ptr, other).unwrap();
                        }
                    }
                });
            }
        });
        rig.sim.complete_all();
        assert_eq!((rig.sim.take_faults(), rig.sim.races()), (vec![], vec![]), "seed {seed}");
        assert_eq!(rig.used(), 0);
    }
}
