//! Allocates and frees so many times, for tools that count what that takes: `alloc_pairs CASE PAIRS`.

#![expect(unsafe_code, reason = "gives back by hand what the raw calls gave out")]
#![expect(clippy::print_stderr, reason = "a program: it says how it is called")]

use c10_cuda::alloc::History;
use c10_cuda::driver::DevicePtr;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config};

const BYTES: u64 = 65_536;
const LIVE: usize = 1000;
/// Powers of two from 512 B on.
const TO_1_MIB: u64 = 11;
const TO_64_MIB: u64 = 17;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(case), Some(pairs)) = (arguments.next(), arguments.next()) else {
        eprintln!(
            "alloc_pairs hot_raw|hot_owned|mix_raw|mix_small|mix_owned|mix_history|record_stream|record_stream_100 PAIRS"
        );
        std::process::exit(2);
    };
    let pairs: u64 = pairs.parse()?;
    let driver = SimDriver::new(SimConfig::default());
    let allocator = CachingAllocator::new(driver.clone(), Config::default())?;
    match case.as_str() {
        "hot_raw" => (0..pairs).try_for_each(|_| delete(&allocator, allocator.raw_alloc(BYTES)?))?,
        "hot_owned" => (0..pairs).try_for_each(|_| allocator.allocate(BYTES).map(drop))?,
        "mix_raw" => mix_raw(&allocator, pairs, TO_64_MIB)?,
        "mix_small" => mix_raw(&allocator, pairs, TO_1_MIB)?,
        "mix_owned" => mix_owned(&allocator, pairs)?,
        "mix_history" => {
            allocator.record_history(Some(History { max_entries: 1000, ..History::default() }));
            mix_raw(&allocator, pairs, TO_64_MIB)?;
        }
        "record_stream" => record_stream(&driver, &allocator, pairs, 1)?,
        "record_stream_100" => record_stream(&driver, &allocator, pairs, 100)?,
        _ => return Err(format!("{case:?} is no case").into()),
    }
    Ok(())
}

/// Blocks that a second stream uses, whose work completes each so many pairs.
fn record_stream(
    driver: &SimDriver,
    allocator: &CachingAllocator,
    pairs: u64,
    each: u64,
) -> c10_cuda::Result<()> {
    let stream = allocator.runtime().stream_from_pool(0, 0)?;
    let handle = allocator.runtime().handle(stream)?;
    for pair in 1..=pairs {
        let block = allocator.allocate(BYTES)?;
        allocator.record_stream(&block, stream)?;
        drop(block);
        if pair.is_multiple_of(each) {
            driver.complete_stream(handle);
        }
    }
    Ok(())
}

fn delete(allocator: &CachingAllocator, block: DevicePtr) -> c10_cuda::Result<()> {
    // SAFETY: the block comes from a raw call, this is its only end, and no work uses it.
    unsafe { allocator.raw_delete(block) }
}

/// Slots of a thousand live blocks and their next sizes, from 512 B through so many powers of two, evenly over the
/// logarithm.
fn steps(pairs: u64, powers: u64) -> impl Iterator<Item = (usize, u64)> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..pairs).map(move |step| {
        let slot = if step < LIVE as u64 { step } else { next() % LIVE as u64 };
        let low = 1_u64 << (9 + next() % powers);
        (slot as usize, low + next() % low)
    })
}

fn mix_raw(allocator: &CachingAllocator, pairs: u64, powers: u64) -> c10_cuda::Result<()> {
    let mut live = [None; LIVE];
    for (slot, bytes) in steps(pairs, powers) {
        if let Some(block) = live[slot].take() {
            delete(allocator, block)?;
        }
        live[slot] = Some(allocator.raw_alloc(bytes)?);
    }
    live.into_iter().flatten().try_for_each(|block| delete(allocator, block))
}

fn mix_owned(allocator: &CachingAllocator, pairs: u64) -> c10_cuda::Result<()> {
    let mut live = [const { None }; LIVE];
    for (slot, bytes) in steps(pairs, TO_64_MIB) {
        live[slot] = None;
        live[slot] = Some(allocator.allocate(bytes)?);
    }
    Ok(())
}
