//! The programs of the sweep: one for each path that calls the driver.

use c10_core::{DeviceType, EventFlags, Stream};
use c10_cuda::driver::DevicePtr;
use c10_cuda::{Config, CudaEvent};

use super::world::World;
use crate::rig::{MIB, address};
use crate::support::{copy, fill, launch, range, upload};

/// A program, with the settings that it runs under.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    settings: &'static str,
    pub(crate) run: fn(&mut World),
}

const fn program(name: &'static str, settings: &'static str, run: fn(&mut World)) -> Program {
    Program { name, settings, run }
}

/// All of them. A new path joins by a line.
pub(crate) const PROGRAMS: &[Program] = &[
    program("busy", "", busy),
    program("busy, without the lock", "release_lock_on_cudamalloc:True", busy),
    program(
        "busy, with limits",
        "max_split_size_mb:20,garbage_collection_threshold:0.3,throw_on_cudamalloc_oom:True",
        busy,
    ),
    program("busy, expandable", "expandable_segments:True", busy),
    program("busy, expandable with limits", "expandable_segments:True,max_split_size_mb:40", busy),
    program("busy, stitched", "placement:stitched", busy),
    program("work", "", work),
    program("work, expandable", "expandable_segments:True", work),
    program("work, stitched", "placement:stitched", work),
    program("raw", "", raw),
    program("uncached", "", uncached),
    program("pinned", "", pinned),
];

impl Program {
    pub(crate) fn config(&self) -> Config {
        Config::parse(self.settings).unwrap()
    }

    /// The world after it.
    pub(crate) fn world(&self) -> World {
        World::new(self.config())
    }
}

fn main_stream() -> Stream {
    Stream::default_of(DeviceType::Cuda, 0)
}

fn side_stream(world: &mut World, device: u8) -> Stream {
    let result = world.runtime.stream_from_pool(device, 0);
    world.step(result).unwrap_or_else(|| Stream::default_of(DeviceType::Cuda, device))
}

/// Pools, streams, shortages of every kind, deferred frees, an emptied cache.
pub(crate) fn busy(world: &mut World) {
    let main = main_stream();
    let side = side_stream(world, 0);
    let result = world.cuda.set_memory_fraction(0.9, 0);
    world.step(result);
    for bytes in [100, 3 * MIB, 30 * MIB, 25 * MIB] {
        world.allocate(bytes, main);
    }
    world.allocate(5000, side);
    for at in 0..world.held.len() {
        let result = world.cuda.record_stream(&world.held[at], side);
        world.step(result);
    }
    world.free(3);
    world.allocate(40 * MIB, main);
    world.sim.complete_all();
    world.allocate(10 * MIB, side);
    world.free(2);
    let result = world.cuda.empty_cache();
    world.step(result);
    world.allocate(200 * MIB, main);
    world.allocate(90 * MIB, main);
    let result = world.cuda.cache_info(0);
    world.step(result);
    for _ in 0..2 {
        world.allocate(21 * MIB, main);
    }
    world.free(2);
    world.allocate(50 * MIB, main);
    world.free(1);
}

/// Kernels, fills and copies on two devices, ordered by events. Whatever could not be ordered is not issued.
fn work(world: &mut World) {
    let main = main_stream();
    let sides = [side_stream(world, 0), side_stream(world, 1)];
    for round in 0..3_u8 {
        let result = world.cuda.allocate_on(3 * MIB, main);
        let Some(block) = world.step(result) else { continue };
        let at = DevicePtr(address(&block));
        let result = world.runtime.handle(main);
        let Some(on) = world.step(result) else { continue };
        let result = fill(&*world.driver, at, round, 3 * MIB, on);
        world.driver_step(result);
        let result = upload(&*world.driver, at, &[round; 16], on);
        world.driver_step(result);
        for side in sides {
            use_behind(world, at, main, side, &block);
        }
        drop(block);
    }
    let result = world.cuda.empty_cache();
    world.step(result);
}

/// A use on `side` behind what `main` holds, declared to the allocator.
fn use_behind(world: &mut World, at: DevicePtr, main: Stream, side: Stream, block: &c10_core::DataPtr) {
    let Ok(event) = CudaEvent::new(&world.runtime, EventFlags::default()) else { return };
    let ordered = event.record(main).and_then(|()| event.wait(side));
    world.kept.push(Box::new(event));
    if world.step(ordered).is_none() {
        return;
    }
    let result = world.cuda.record_stream(block, side);
    let on = world.runtime.handle(side);
    let (Some(()), Some(on)) = (world.step(result), world.step(on)) else { return };
    let result = if side.device_index() == main.device_index() {
        launch(&*world.driver, on, "read", &[range(at, 3 * MIB)], &[], |_| ())
    } else {
        let result = world.cuda.allocate_on(4096, side);
        let Some(there) = world.step(result) else { return };
        let to = DevicePtr(address(&there));
        world.held.push(there);
        copy(&*world.driver, to, at, 4096, on)
    };
    world.driver_step(result);
}

/// The raw calls.
fn raw(world: &mut World) {
    let side = side_stream(world, 0);
    let mut held = Vec::new();
    for bytes in [100, 3 * MIB, 30 * MIB, 95 * MIB] {
        let result = world.cuda.raw_alloc(bytes);
        held.extend(world.step(result));
    }
    for ptr in held {
        let result = world.cuda.record_stream_raw(ptr, side);
        world.step(result);
        #[expect(unsafe_code, reason = "gives the memory back")]
        // SAFETY: nothing uses it.
        let result = unsafe { world.cuda.raw_delete(ptr) };
        world.step(result);
        let result = world.cuda.raw_alloc(40 * MIB);
        if let Some(ptr) = world.step(result) {
            #[expect(unsafe_code, reason = "gives the memory back")]
            // SAFETY: nothing uses it.
            let result = unsafe { world.cuda.raw_delete(ptr) };
            world.step(result);
        }
    }
}

/// Caching switched off, and on again. A free that the driver refuses keeps the memory, so that frees are left to the
/// end.
fn uncached(world: &mut World) {
    let main = main_stream();
    world.cuda.enable(false);
    for bytes in [100, 3 * MIB, 200 * MIB] {
        world.allocate(bytes, main);
    }
    world.cuda.enable(true);
    world.allocate(3 * MIB, main);
}

/// Pinned memory of the host.
fn pinned(world: &mut World) {
    let streams = [main_stream(), side_stream(world, 0), side_stream(world, 1)];
    for round in 0..3 {
        let mut held = Vec::new();
        for bytes in [100, 5000, 1 << 20] {
            let result = world.pinned.allocate(bytes);
            held.extend(world.step(result));
        }
        for (block, stream) in held.iter().zip(streams.into_iter().cycle().skip(round)) {
            let result = world.pinned.record_event(block, stream);
            world.step(result);
        }
        drop(held);
        world.pinned.check_invariants();
        if round == 1 {
            world.sim.complete_all();
        }
        let result = world.pinned.process_events();
        world.step(result);
    }
    let result = world.pinned.empty_cache();
    world.step(result);
}
