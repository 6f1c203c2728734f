//! Blocks that come back and go out again at once, beside an allocator to which something else always happens in
//! between: places, statistics and what observers see must agree.

use std::sync::Arc;

use c10_cuda::driver::Driver;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
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
