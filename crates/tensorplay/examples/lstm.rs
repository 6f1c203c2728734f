//! A recurrent network that learns to foretell a wave, over thousands of steps, and the memory that it takes: flat from
//! the first steps to the last, whether memory is freed at once or later, in bulk.
//!
//! `cargo run --release -p tensorplay --example lstm`; `-- --quick` runs fewer steps.

#![expect(clippy::print_stdout, reason = "a program: it prints the table")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use tensorplay::c10_core::DeviceType;
use tensorplay::c10_core::allocator::{
    CachingCpuAllocator, CountingAllocator, DeferredFreeAllocator, DeferredFreeConfig, set_allocator,
};
use tensorplay::nn::LstmState;
use tensorplay::prelude::*;

/// Waves that are foretold at once.
const BATCH: i64 = 8;
/// Steps between two changes of the weights.
const CHUNK: i64 = 25;
/// Parts of the run that the table shows.
const PARTS: i64 = 8;

fn main() -> Result<ExitCode> {
    let steps = if std::env::args().any(|argument| argument == "--quick") { 2_000 } else { 10_000 };
    let counting = Arc::new(CountingAllocator::new(Arc::new(CachingCpuAllocator::default())));

    println!("{steps} steps, memory freed at once");
    set_allocator(DeviceType::Cpu, counting.clone(), 1);
    let at_once = learn(steps, &counting, None)?;

    println!("\n{steps} steps, memory freed later, in bulk");
    let deferred = Arc::new(DeferredFreeAllocator::try_new(counting.clone(), DeferredFreeConfig::default())?);
    set_allocator(DeviceType::Cpu, deferred.clone(), 1);
    let later = learn(steps, &counting, Some(&deferred))?;

    let is_flat = at_once.is_flat() && later.is_flat();
    let verdict = if is_flat { "flat" } else { "growing" };
    println!("\nlive bytes: {verdict}; the peak is {} bytes at once, and {} later", at_once.peak, later.peak);
    Ok(if is_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a run took.
struct Taken {
    /// Live bytes at the end of each part.
    live: Vec<i64>,
    /// The most bytes that were held at once.
    peak: i64,
}

impl Taken {
    /// Whether no part left more behind than the first.
    fn is_flat(&self) -> bool {
        self.live.iter().all(|live| *live <= self.live[0])
    }
}

/// Learns for so many steps of the wave, and prints what memory is taken.
fn learn(
    steps: i64,
    counting: &CountingAllocator,
    deferred: Option<&DeferredFreeAllocator>,
) -> Result<Taken> {
    tensorplay::manual_seed(0);
    let lstm = nn::Lstm::new(1, 32)?;
    let head = nn::Linear::new(32, 1)?;
    let parameters = [lstm.parameters(), head.parameters()].concat();
    let mut optimizer = optim::Adam::new(parameters, optim::AdamOptions { lr: 5e-3, ..Default::default() })?;
    let mut state: Option<LstmState> = None;
    let mut taken = Taken { live: Vec::new(), peak: 0 };
    let chunks = steps / CHUNK;
    counting.reset_peak();
    println!("   step        loss   live bytes   held bytes   waiting    seconds");
    let started = Instant::now();
    for chunk in 0..chunks {
        let wave = wave(chunk * CHUNK)?;
        let (input, target) = (part(&wave, 0)?, part(&wave, 1)?);
        optimizer.zero_grad()?;
        let (output, after) = lstm.forward_with(&input, state.as_ref())?;
        let loss = head.forward(&output)?.mse_loss(&target)?;
        loss.backward()?;
        optimizer.step()?;
        // The next chunk goes on from here, and its gradients end here: the graph of this one can go.
        state = Some(LstmState { hidden: after.hidden.detach()?, cell: after.cell.detach()? });
        if (chunk + 1) % (chunks / PARTS) == 0 {
            let waiting = deferred.map_or(0, |deferred| deferred.pending_bytes() as i64);
            let held = counting.counts().bytes.current;
            taken.live.push(held - waiting);
            println!(
                "{:7}  {:10.6}{:13}{held:13}{waiting:10}{:11.2}",
                (chunk + 1) * CHUNK,
                loss.item()?.to::<f64>()?,
                held - waiting,
                started.elapsed().as_secs_f64()
            );
        }
    }
    taken.peak = counting.counts().bytes.peak;
    Ok(taken)
}

/// One step more than a chunk of a wave that is a sum of two, `[step, wave, 1]`.
fn wave(first: i64) -> Result<Tensor> {
    let time = Tensor::arange_start(first, first + CHUNK + 1, ScalarType::Float32)?.reshape(&[-1, 1, 1])?;
    let shift = Tensor::arange(BATCH, ScalarType::Float32)?.reshape(&[1, -1, 1])?;
    let time = (&time + &shift)?;
    (&time * 0.2).and_then(|slow| slow.sin())? + ((&time * 0.31)?.sin()? * 0.5)
}

/// A chunk of it, from this step on.
fn part(wave: &Tensor, start: i64) -> Result<Tensor> {
    wave.narrow(0, start, CHUNK)
}
