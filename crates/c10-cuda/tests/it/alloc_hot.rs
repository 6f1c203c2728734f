//! Blocks that come back and go out again at once, beside an allocator to which something else always happens in
//! between: places, statistics and what observers see must agree.

use std::sync::Arc;

use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status};
use c10_cuda::{CachingAllocator, Config};
use proptest::collection::vec;
use proptest::prelude::*;

fn allocator() -> (Arc<SimDriver>, CachingAllocator) {
    let driver = SimDriver::new(SimConfig::with_bytes(256 << 20));
    let allocator = CachingAllocator::new(driver.clone(), Config::default()).expect("the defaults are valid");
    (driver, allocator)
}

/// A step: how many bytes to allocate, or which of the live blocks to free, and how often it goes and comes.
#[derive(Clone, Debug)]
struct Step {
    bytes: u64,
    frees: Option<usize>,
    rounds: usize,
    stream: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(512_u64), Just(1 << 20), Just(3 << 20), 1_u64..(12 << 20)];
    (bytes, proptest::option::of(0_usize..8), 0_usize..4, any::<bool>())
        .prop_map(|(bytes, frees, rounds, stream)| Step { bytes, frees, rounds, stream })
}

proptest! {
    #[test]
    fn parked_blocks_are_not_seen(steps in vec(step(), 1..60)) {
        let (_quick_driver, quick) = allocator();
        let (_slow_driver, slow) = allocator();
        let other = |allocator: &CachingAllocator| {
            allocator.runtime().stream_from_pool(0, 0).expect("device 0 has streams")
        };
        let streams = [other(&quick), other(&slow)];
        let mut live = Vec::new();
        for step in steps {
            if let Some(at) = step.frees.filter(|at| *at < live.len()) {
                live.swap_remove(at);
                continue;
            }
            let ask = |allocator: &CachingAllocator, stream| {
                if step.stream { allocator.allocate_on(step.bytes, stream) } else { allocator.allocate(step.bytes) }
            };
            for round in 0..=step.rounds {
                let pair = (ask(&quick, streams[0]), ask(&slow, streams[1]));
                // Looking at the statistics settles.
                slow.device_stats(0).expect("there is a device 0");
                match pair {
                    (Ok(a), Ok(b)) => {
                        prop_assert_eq!(a.as_ptr(), b.as_ptr());
                        if round == step.rounds {
                            live.push((a, b));
                        } else {
                            drop(a);
                            drop(b);
                            slow.device_stats(0).expect("there is a device 0");
                        }
                    }
                    (a, b) => {
                        prop_assert_eq!(a.is_err(), b.is_err());
                        break;
                    }
                }
            }
        }
        prop_assert_eq!(quick.device_stats(0).ok(), slow.device_stats(0).ok());
        prop_assert_eq!(quick.snapshot(false).segments, slow.snapshot(false).segments);
        quick.check_invariants();
    }
}

/// A step of a program that shares its blocks: which of three sizes, who uses the block, whether it is kept, and what
/// is complete then.
#[derive(Clone, Debug)]
struct SharedStep {
    bytes: u64,
    users: Vec<usize>,
    keeps: bool,
    completes: Option<usize>,
    fails: bool,
}

fn shared_step() -> impl Strategy<Value = SharedStep> {
    let bytes = prop_oneof![6 => Just(512_u64), 2 => Just(1 << 20), 1 => Just(3 << 20)];
    let users = prop_oneof![1 => Just(vec![]), 6 => Just(vec![0]), 2 => vec(0_usize..3, 1..3)];
    let completes = prop_oneof![4 => Just(Some(0)), 1 => Just(Some(1)), 3 => Just(None)];
    (bytes, users, proptest::bool::weighted(0.2), completes, proptest::bool::weighted(0.05)).prop_map(
        |(bytes, users, keeps, completes, fails)| SharedStep { bytes, users, keeps, completes, fails },
    )
}

proptest! {
    #[test]
    fn waiting_blocks_are_not_seen(steps in vec(shared_step(), 1..80)) {
        let sides = [allocator(), allocator()];
        let streams = sides.each_ref().map(|(_, cuda)| {
            let other = |_| cuda.runtime().stream_from_pool(0, 0).expect("device 0 has streams");
            // The last is the one that the blocks are allocated on.
            [other(()), other(()), cuda.runtime().current_stream(0).expect("device 0 has streams")]
        });
        let mut live = Vec::new();
        for step in steps {
            let mut blocks = Vec::new();
            for ((driver, cuda), streams) in sides.iter().zip(&streams) {
                let block = cuda.allocate(step.bytes);
                if let Ok(block) = &block {
                    for user in &step.users {
                        cuda.record_stream(block, streams[*user]).expect("both are of one runtime");
                    }
                }
                if step.fails {
                    let rule = FaultRule::nth("event_record", 1, Status::LaunchFailed).times(1);
                    driver.set_faults(rule.into());
                }
                blocks.push(block);
            }
            match (blocks.pop(), blocks.pop()) {
                (Some(Ok(a)), Some(Ok(b))) => {
                    prop_assert_eq!(a.as_ptr(), b.as_ptr());
                    if step.keeps {
                        live.push((a, b));
                    }
                }
                (a, b) => prop_assert!(matches!((a, b), (Some(Err(_)), Some(Err(_))))),
            }
            // Looking at the statistics settles.
            sides[1].1.device_stats(0).expect("there is a device 0");
            for ((driver, cuda), streams) in sides.iter().zip(&streams) {
                driver.set_faults(FaultPlan::new());
                if let Some(at) = step.completes {
                    driver.complete_stream(cuda.runtime().handle(streams[at]).expect("it is of the runtime"));
                }
            }
        }
        let [(quick_driver, quick), (slow_driver, slow)] = &sides;
        prop_assert_eq!(quick.device_stats(0).ok(), slow.device_stats(0).ok());
        prop_assert_eq!(quick.snapshot(false).segments, slow.snapshot(false).segments);
        for call in ["event_create", "event_record", "event_query", "malloc", "free"] {
            prop_assert_eq!(quick_driver.call_count(call), slow_driver.call_count(call), "{}", call);
        }
        quick.check_invariants();
    }
}

#[test]
fn a_stream_that_is_declared_holds_a_hot_block() {
    let (driver, allocator) = allocator();
    let stream = allocator.runtime().stream_from_pool(0, 0).expect("device 0 has streams");
    for bytes in [512, 4 << 20] {
        // Twice, so that the block is found in a free set and is hot.
        drop(allocator.allocate(bytes).expect("there is memory"));
        let block = allocator.allocate(bytes).expect("there is memory");
        let address = block.as_ptr();
        allocator.record_stream(&block, stream).expect("both are of one runtime");
        drop(block);
        let next = allocator.allocate(bytes).expect("there is memory");
        assert_ne!(next.as_ptr(), address, "the stream may still use it");
        driver.complete_all();
    }
}

#[test]
fn a_parked_block_ends_with_its_allocator() {
    let (driver, allocator) = allocator();
    let keeps = allocator.allocate(512).expect("there is memory");
    for _ in 0..3 {
        drop(allocator.allocate(2 << 20).expect("there is memory"));
    }
    drop(allocator);
    assert!(driver.memory_info(0).expect("there is a device 0").free < 256 << 20);
    drop(keeps);
    assert_eq!(
        driver.memory_info(0).expect("there is a device 0").free,
        256 << 20,
        "the device has gone with its last block"
    );
}
