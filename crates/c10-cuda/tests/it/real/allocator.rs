//! The allocators over the real driver.

use c10_cuda::driver::DevicePtr;
use c10_cuda::{CachingAllocator, Config, CudaEvent, ErrorKind};

use super::RealRig;
use crate::support::{MIB, fill, read};

const SETTINGS: [&str; 4] =
    ["", "expandable_segments:True", "backend:cudaMallocAsync", "max_split_size_mb:20"];

pub(super) fn at(ptr: &c10_core::DataPtr) -> DevicePtr {
    DevicePtr(ptr.as_ptr().addr() as u64)
}

#[test]
fn blocks_hold_what_is_written_to_them() {
    for settings in SETTINGS {
        let Some(rig) = RealRig::new(1) else { return };
        let allocator = CachingAllocator::new(rig.driver(), Config::parse(settings).unwrap()).unwrap();
        let runtime = allocator.runtime();
        let side = runtime.stream_from_pool(0, 0).unwrap();
        let on_side = runtime.handle(side).unwrap();
        let on = runtime.handle(runtime.current_stream(0).unwrap()).unwrap();
        let mut live = Vec::new();
        for round in 0..60_u64 {
            let bytes = [700, 5000, MIB + 1, 3 * MIB][(round % 4) as usize] + round;
            let block = allocator.allocate(bytes).unwrap();
            fill(&*rig, at(&block), round as u8, bytes, on).unwrap();
            if round % 5 == 0 {
                // Another stream reads it, behind an event.
                let ready = CudaEvent::new(runtime, Default::default()).unwrap();
                ready.record(runtime.current_stream(0).unwrap()).unwrap();
                ready.wait(side).unwrap();
                allocator.record_stream(&block, side).unwrap();
                assert_eq!(read(&*rig, at(&block), 3, on_side), [round as u8; 3]);
            }
            live.push((round, bytes, block));
            if round % 3 == 0 {
                let (value, bytes, old) = live.swap_remove((round / 3) as usize % live.len());
                let bytes = bytes as usize;
                assert!(read(&*rig, at(&old), bytes, on) == vec![value as u8; bytes], "{settings}");
            }
        }
        for (value, bytes, block) in live.drain(..) {
            assert!(
                read(&*rig, at(&block), bytes as usize, on) == vec![value as u8; bytes as usize],
                "{settings}"
            );
        }
        allocator.empty_cache().unwrap();
    }
}

#[test]
fn out_of_memory_is_told_and_overcome() {
    for settings in SETTINGS {
        let Some((rig, _)) = RealRig::over_standin(1) else { return };
        let allocator = CachingAllocator::new(rig.driver(), Config::parse(settings).unwrap()).unwrap();
        let total = rig.memory_info(0).unwrap().total;
        let mut held = Vec::new();
        let refused = loop {
            match allocator.allocate(total / 5) {
                Ok(block) => held.push(block),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{settings}: {refused}");
        assert!(held.len() >= 3, "{settings}: {}", held.len());
        drop(held.pop());
        held.push(allocator.allocate(total / 5).unwrap());
        drop(held);
        allocator.empty_cache().unwrap();
    }
}
