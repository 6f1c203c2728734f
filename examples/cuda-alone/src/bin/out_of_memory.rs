//! Out of memory, handled: a cache of the program's own is dropped first, then the request is refused with numbers,
//! and the program goes on with a smaller batch.

#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use c10_core::{DataPtr, Stream};
use c10_cuda::driver::Driver;
use c10_cuda::{Error, ErrorKind};
use cuda_alone::{Gpu, Result, run};

const MIB: u64 = 1 << 20;
/// What the program allows itself, however large the GPU is.
const BUDGET: u64 = 256 * MIB;

/// Memory that could be made again: the program's own cache.
type Spare = Arc<Mutex<Vec<DataPtr>>>;

fn main() -> ExitCode {
    run(example)
}

fn example(driver: Arc<dyn Driver>) -> Result {
    let gpu = Gpu::new(&driver, "")?;
    let total = gpu.cuda.mem_get_info(0)?.total;
    gpu.cuda.set_memory_fraction(BUDGET as f64 / total as f64, 0)?;
    let stream = gpu.runtime().current_stream(0)?;

    let weights = gpu.floats(1 << 20, stream)?;
    let values: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    gpu.upload(&weights, &values, stream)?;

    let spare = Spare::default();
    fill(&spare, &gpu, 96 * MIB)?;
    free_when_asked(&spare, &gpu);

    // Behind the weights and the cache there is no room for this: the cache goes, and there is.
    let first = gpu.cuda.allocate(180 * MIB)?;
    println!("180 MiB fit once the program's cache had gone: {} pieces are left of it", held(&spare));
    drop(first);

    let batch = largest_that_fits(&gpu, stream, 1024 * MIB)?;
    println!("a batch of {} MiB fits", batch >> 20);

    if gpu.download(&weights, stream)? != values {
        return Err("the weights are not what they were".into());
    }
    println!("the weights are what they were; {} refusals", gpu.cuda.device_stats(0)?.num_ooms);
    Ok(())
}

fn fill(spare: &Spare, gpu: &Gpu, bytes: u64) -> Result {
    let mut pieces = spare.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..bytes / (32 * MIB) {
        pieces.push(gpu.cuda.allocate(32 * MIB)?);
    }
    Ok(())
}

fn held(spare: &Spare) -> usize {
    spare.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// The allocator calls this before it asks the driver for more, with no lock held.
fn free_when_asked(spare: &Spare, gpu: &Gpu) {
    let spare = Arc::clone(spare);
    gpu.cuda.register_free_memory_callback(Arc::new(move || {
        let pieces = std::mem::take(&mut *spare.lock().unwrap_or_else(PoisonError::into_inner));
        !pieces.is_empty()
    }));
}

/// Halves a batch until it fits. The allocator is as usable after a refusal as before.
fn largest_that_fits(gpu: &Gpu, stream: Stream, mut bytes: u64) -> Result<u64> {
    loop {
        match gpu.cuda.allocate_on(bytes, stream) {
            Ok(_batch) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                println!("{}", in_numbers(&error));
                bytes /= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// `Error`'s own text is PyTorch's; these are the numbers behind it.
fn in_numbers(error: &Error) -> String {
    let oom = error.out_of_memory().copied().unwrap_or_default();
    let allowed = oom.allowed.unwrap_or(oom.device_total);
    format!("refused {} MiB: {} MiB of {} are held", oom.requested >> 20, oom.allocated >> 20, allowed >> 20)
}
