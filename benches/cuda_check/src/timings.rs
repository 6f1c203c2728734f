#![expect(unsafe_code, reason = "gives back what it got, with no work on it")]
//! What calls cost the thread that makes them: the driver's, the allocator's over it, and cudarc's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use c10_cuda::driver::{DevicePtr, Driver, EventFlags, StreamHandle, real};
use c10_cuda::{CachingAllocator, Config, Runtime};
use clap::Args as ClapArgs;
use cuda_alone::Kernels;
use cudarc::driver::CudaContext;

use crate::{Result, figure};

const MIB: u64 = 1 << 20;

/// How much is measured.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// A few rounds, to see that it runs
    #[arg(long)]
    short: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let driver = real::load()?;
    let rounds = if args.short { 3 } else { 200 };
    allocations(&driver, rounds)?;
    virtual_memory(&driver, rounds)?;
    pools(&driver, rounds)?;
    events(&driver, rounds)?;
    launches(&driver, rounds)?;
    for (name, settings) in [
        ("allocator", ""),
        ("allocator, expandable", "expandable_segments:True"),
        ("allocator over cudaMallocAsync", "backend:cudaMallocAsync"),
    ] {
        allocator(&driver, name, settings, rounds)?;
    }
    cudarc(rounds)
}

/// The times of one call.
struct Times {
    name: String,
    taken: Vec<Duration>,
    /// How many calls were timed at once.
    at_once: u32,
}

impl Times {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), taken: Vec::new(), at_once: 1 }
    }

    /// Times one call.
    fn of<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let value = call();
        self.taken.push(begun.elapsed());
        value
    }

    /// Times a call that is short beside the clock, many at once.
    fn of_many(name: &str, rounds: u32, mut call: impl FnMut() -> Result) -> Result {
        let mut times = Self { at_once: 100, ..Self::new(name) };
        for _ in 0..rounds {
            times.of(|| (0..100).try_for_each(|_| call()))?;
        }
        times.print();
        Ok(())
    }

    fn print(mut self) {
        self.taken.sort();
        let at = |part: usize| {
            let taken = self.taken[(self.taken.len() - 1) * part / 100];
            (taken / self.at_once).as_nanos() as f64
        };
        figure::print(&self.name, at(50), "ns");
        figure::print(&format!("{}, 9 of 10 within", self.name), at(90), "ns");
    }
}

fn allocations(driver: &Arc<dyn Driver>, rounds: u32) -> Result {
    for mib in [2, 20, 256] {
        let mut malloc = Times::new(format!("malloc {mib} MiB"));
        let mut free = Times::new(format!("free {mib} MiB"));
        for _ in 0..rounds {
            let ptr = malloc.of(|| driver.malloc(0, mib * MIB))?;
            // SAFETY: nobody has used it.
            free.of(|| unsafe { driver.free(ptr) })?;
        }
        malloc.print();
        free.print();
    }
    let mut alloc = Times::new("pinned alloc 1 MiB");
    let mut free = Times::new("pinned free 1 MiB");
    for _ in 0..rounds {
        let ptr = alloc.of(|| driver.host_alloc(MIB))?;
        // SAFETY: nobody has used it.
        free.of(|| unsafe { driver.host_free(ptr) })?;
    }
    alloc.print();
    free.print();
    Ok(())
}

/// A page of an expandable segment's, which is 20 MiB of large blocks.
fn virtual_memory(driver: &Arc<dyn Driver>, rounds: u32) -> Result {
    let bytes = (20 * MIB).next_multiple_of(driver.granularity(0)?);
    let names = ["create 20 MiB", "map 20 MiB", "set access 20 MiB", "unmap 20 MiB", "release 20 MiB"];
    let [mut create, mut map, mut set_access, mut unmap, mut release] = names.map(Times::new);
    let range = driver.reserve(0, bytes)?;
    for _ in 0..rounds {
        let memory = create.of(|| driver.create(0, bytes))?;
        map.of(|| driver.map(range.base, memory))?;
        set_access.of(|| driver.set_access(range.base, bytes, &[0]))?;
        // SAFETY: nobody has used it.
        unmap.of(|| unsafe { driver.unmap(range.base, bytes) })?;
        release.of(|| driver.release(memory))?;
    }
    // SAFETY: nothing is mapped there any more.
    unsafe { driver.free_range(range) }?;
    [create, map, set_access, unmap, release].into_iter().for_each(Times::print);
    Ok(())
}

/// The driver's own cache: its pool keeps all.
fn pools(driver: &Arc<dyn Driver>, rounds: u32) -> Result {
    let stream = driver.stream_create(0, 0)?;
    driver.mem_pool_set_release_threshold(0, u64::MAX)?;
    let timed = Times::of_many("cudaMallocAsync and free, 3 MiB", rounds, || {
        let ptr = driver.malloc_async(3 * MIB, stream)?;
        // SAFETY: nobody has used it.
        Ok(unsafe { driver.free_async(ptr, stream) }?)
    });
    driver.stream_synchronize(stream)?;
    driver.mem_pool_set_release_threshold(0, 0)?;
    driver.mem_pool_trim(0, 0)?;
    driver.stream_destroy(stream)?;
    timed
}

fn events(driver: &Arc<dyn Driver>, rounds: u32) -> Result {
    let (stream, other) = (driver.stream_create(0, 0)?, driver.stream_create(0, 0)?);
    let event = driver.event_create(0, EventFlags::default())?;
    Times::of_many("event create and destroy", rounds, || {
        let event = driver.event_create(0, EventFlags::default())?;
        Ok(driver.event_destroy(event)?)
    })?;
    Times::of_many("event record", rounds, || Ok(driver.event_record(event, stream)?))?;
    driver.event_synchronize(event)?;
    Times::of_many("event query", rounds, || {
        driver.event_query(event)?;
        Ok(())
    })?;
    Times::of_many("stream wait event", rounds, || Ok(driver.stream_wait_event(other, event)?))?;
    driver.stream_synchronize(other)?;
    driver.event_destroy(event)?;
    driver.stream_destroy(other)?;
    Ok(driver.stream_destroy(stream)?)
}

fn launches(driver: &Arc<dyn Driver>, rounds: u32) -> Result {
    let kernels = Kernels::load(driver, 0)?;
    let stream = StreamHandle::default_of(0);
    Times::of_many("launch", rounds, || Ok(kernels.spin(stream, 0)?))?;
    Ok(driver.device_synchronize(0)?)
}

fn allocator(driver: &Arc<dyn Driver>, name: &str, settings: &str, rounds: u32) -> Result {
    let cuda = CachingAllocator::with_runtime(Runtime::new(Arc::clone(driver)), Config::parse(settings)?)?;
    let side = cuda.runtime().stream_from_pool(0, 0)?;
    drop(cuda.allocate(3 * MIB)?);
    Times::of_many(&format!("{name}: allocate and drop, 3 MiB"), rounds, || {
        drop(cuda.allocate(3 * MIB)?);
        Ok(())
    })?;
    Times::of_many(&format!("{name}: raw, 3 MiB"), rounds, || {
        let ptr: DevicePtr = cuda.raw_alloc(3 * MIB)?;
        // SAFETY: nobody has used it.
        Ok(unsafe { cuda.raw_delete(ptr) }?)
    })?;
    Times::of_many(&format!("{name}: used on another stream, 3 MiB"), rounds, || {
        let block = cuda.allocate(3 * MIB)?;
        cuda.record_stream(&block, side)?;
        Ok(())
    })?;
    driver.device_synchronize(0)?;
    Ok(cuda.empty_cache()?)
}

/// `CudaStream::alloc` as cudarc has it, with its events.
fn cudarc(rounds: u32) -> Result {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    Times::of_many("cudarc: alloc and drop, 3 MiB", rounds, || {
        // SAFETY: nobody reads it.
        drop(unsafe { stream.alloc::<u8>(3 << 20) }?);
        Ok(())
    })?;
    stream.synchronize()?;
    Ok(context.check_err()?)
}
