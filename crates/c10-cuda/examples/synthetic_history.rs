//! Writes a long history as PyTorch's snapshot file, to time what reads such files:
//!
//! ```text
//! cargo run --release -p c10-cuda --example synthetic_history -- 1000000 history.pickle
//! tensorplay replay history.pickle --timing
//! ```
//!
//! A program of random requests, sizes spread over their logarithm from 512 bytes to 64 MiB, some ten thousand
//! blocks live, one in a hundred used on a second stream. The same number gives the same file.

#![expect(clippy::print_stderr, reason = "a program: it says what it wrote")]

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_cuda::alloc::{Context, ContextProvider, Contexts, Frame, History, RecordContext};
use c10_cuda::driver::Driver;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, Runtime};

/// Blocks that are live most of the time.
const LIVE: usize = 10_000;
/// Stacks that the program asks from.
const STACKS: u64 = 200;

/// Gives the stacks in turn.
#[derive(Debug)]
struct Program {
    stacks: Vec<Context>,
    calls: AtomicU64,
}

impl ContextProvider for Program {
    fn gather(&self) -> Option<Context> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        Some(self.stacks[(mixed(call) % STACKS) as usize].clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(events), Some(path)) = (args.next(), args.next()) else {
        return Err("usage: synthetic_history EVENTS FILE".into());
    };
    let events: usize = events.parse()?;
    let sim = SimDriver::new(SimConfig::with_bytes(1 << 44).log_calls(0));
    let runtime = Runtime::new(Arc::clone(&sim) as Arc<dyn Driver>);
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::default())?;
    let stream = runtime.stream_from_pool(0, 0)?;
    let frames = |stack| {
        (0..20)
            .map(|depth| Frame {
                filename: "model.py".into(),
                name: format!("layer_{}", stack % 37),
                line: 10 + depth * 7 + (stack % 11) as u32,
            })
            .collect::<Vec<_>>()
    };
    let stacks = (0..STACKS).map(|stack| Context::new(frames(stack))).collect();
    let provider = Arc::new(Program { stacks, calls: AtomicU64::new(0) });
    cuda.record_history(Some(History {
        max_entries: events,
        contexts: Some(Contexts { level: RecordContext::Alloc, provider }),
        ..History::default()
    }));
    let mut held = Vec::with_capacity(LIVE);
    let mut steps = 0;
    // An allocation and its free are three events.
    while steps < events / 3 {
        steps += 1;
        let random = mixed(steps as u64 + (1 << 40));
        let size = (512u64 << (random % 18)) | ((random >> 32) % 512);
        let block = cuda.allocate(size)?;
        if random.is_multiple_of(100) {
            cuda.record_stream(&block, stream)?;
            sim.complete_all();
        }
        if held.len() < LIVE {
            held.push(block);
        } else {
            held[(random >> 20) as usize % LIVE] = block;
        }
    }
    let mut file = BufWriter::new(File::create(&path)?);
    let snapshot = cuda.snapshot(true);
    snapshot.write_pickle(&mut file)?;
    let entries: usize = snapshot.device_traces.iter().map(Vec::len).sum();
    eprintln!("{path}: {entries} events, {} segments, {} blocks live", snapshot.segments.len(), held.len());
    Ok(())
}

/// SplitMix64 at a place.
fn mixed(at: u64) -> u64 {
    let x = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
