//! The stress: threads that allocate, fill, copy between streams, hand blocks to each other and free them at random,
//! with no waiting but where contents are looked at. A block that is given out too early shows by its bytes.
//!
//! What a thread does follows from the seed and its number; how threads mix does not.

mod contents;
mod random;
mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use c10_cuda::driver::real;
use c10_cuda::{CachingAllocator, Config, PinnedAllocator, PinnedConfig, Runtime};
use clap::Args as ClapArgs;
use cuda_alone::Kernels;

use crate::{Result, figure};
use worker::{Handed, Shared, Worker};

/// What is done.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The allocator's settings, as in PYTORCH_CUDA_ALLOC_CONF
    #[arg(long, default_value = "")]
    settings: String,
    /// From this the programs follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// For so long
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// The most that a thread holds, in MiB
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Tells the allocator of no other stream's use, to see that it is found
    #[arg(long, hide = true)]
    forget_streams: bool,
}

/// Counts of all threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) blocks: AtomicU64,
    pub(crate) bytes_checked: AtomicU64,
    pub(crate) other_stream: AtomicU64,
    pub(crate) other_thread: AtomicU64,
    pub(crate) in_pools: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// Runs the threads, and sees that everything is given back in the end.
pub(crate) fn run(args: &Args) -> Result {
    let driver = real::load()?;
    let runtime = Runtime::new(driver.clone());
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::parse(&args.settings)?)?;
    let shared = Shared {
        pinned: PinnedAllocator::new(runtime, PinnedConfig::default())?,
        kernels: Kernels::load(&driver, 0)?,
        counts: Counts::default(),
        until: Instant::now() + Duration::from_secs_f64(args.seconds),
        most: args.mib << 20,
        forgets: args.forget_streams,
        pools: cuda.config().backend == c10_cuda::Backend::Native,
        cuda,
    };
    let begun = Instant::now();
    let failures = run_threads(&shared, args);
    let seconds = begun.elapsed().as_secs_f64();
    print_counts(&shared.counts, seconds);
    if let Some(first) = failures.first() {
        return Err(format!(
            "seed {}: {} of {} threads failed: {first}",
            args.seed,
            failures.len(),
            args.threads
        )
        .into());
    }
    driver.device_synchronize(0)?;
    shared.cuda.empty_cache()?;
    shared.cuda.check_invariants();
    let (allocated, reserved) = (shared.cuda.memory_allocated(0)?, shared.cuda.memory_reserved(0)?);
    if (allocated, reserved) != (0, 0) {
        return Err(format!("{allocated} bytes are held and {reserved} reserved when all is freed").into());
    }
    let met = shared.cuda.take_free_error(0)?.or_else(|| shared.cuda.runtime().take_drop_error());
    if let Some(error) = met {
        return Err(format!("a free or a drop met: {error}").into());
    }
    Ok(())
}

/// One thread hands blocks to the next, and the last to the first.
fn run_threads(shared: &Shared, args: &Args) -> Vec<String> {
    let threads = args.threads.max(1);
    let channels = (0..threads).map(|_| mpsc::channel());
    let (senders, receivers): (Vec<Sender<Handed>>, Vec<_>) = channels.unzip();
    thread::scope(|scope| {
        let start = |(index, receiver): (usize, Receiver<Handed>)| {
            let to = senders[(index + 1) % threads].clone();
            let seed = args.seed.wrapping_mul(1000).wrapping_add(index as u64);
            scope.spawn(move || Worker::new(shared, seed, receiver, to)?.run())
        };
        let running: Vec<_> = receivers.into_iter().enumerate().map(start).collect();
        drop(senders);
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(done) => done.err().map(|error: worker::Failure| error.to_string()),
            Err(_) => Some("a thread panicked".to_owned()),
        });
        ended.flatten().collect()
    })
}

fn print_counts(counts: &Counts, seconds: f64) {
    let blocks = counts.blocks.load(Ordering::Relaxed) as f64;
    figure::print("blocks", blocks, "");
    figure::print("blocks a second", (blocks / seconds).round(), "1/s");
    figure::print("checked", counts.bytes_checked.load(Ordering::Relaxed) as f64 / f64::from(1 << 20), "MiB");
    figure::print("uses on another stream", counts.other_stream.load(Ordering::Relaxed) as f64, "");
    figure::print("handed to another thread", counts.other_thread.load(Ordering::Relaxed) as f64, "");
    figure::print("blocks of pools", counts.in_pools.load(Ordering::Relaxed) as f64, "");
    figure::print("out of memory", counts.refused.load(Ordering::Relaxed) as f64, "");
}
