//! Copies on one stream while another computes, three ways to say when the input's memory may be used again.
//!
//! Each batch is copied in on `copies` and doubled on `compute`. Its input belongs to `copies`, on which it was
//! allocated; `compute` has to wait for the copy, and the memory must not be overwritten before `compute` has read it.

#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;

use c10_core::Stream;
use c10_cuda::CudaEvent;
use c10_cuda::driver::Driver;
use cuda_alone::{Floats, Gpu, Result, run};

const BATCHES: usize = 8;
/// 4 MiB a batch.
const COUNT: usize = 1 << 20;

fn main() -> ExitCode {
    run(|driver| {
        report("record_stream", &driver, with_record_stream)?;
        report("wait_stream", &driver, with_wait_stream)?;
        report("held until the streams meet", &driver, held_until_they_meet)?;
        println!("every batch is right");
        Ok(())
    })
}

/// The allocator is told of the second stream's use. It waits for that by itself: a host that runs ahead gets new
/// memory for each batch.
fn with_record_stream(gpu: &Gpu, copies: Stream, compute: Stream, results: &[Floats]) -> Result {
    for (batch, result) in results.iter().enumerate() {
        let input = gpu.floats(COUNT, copies)?;
        gpu.upload(&input, &contents(batch), copies)?;
        after(gpu, copies)?.wait(compute)?;
        gpu.scale(result, &input, 2.0, compute)?;
        gpu.cuda.record_stream(input.block(), compute)?;
    }
    Ok(())
}

/// The first stream waits for the second before the next batch: the memory is free again at once, and one piece
/// serves all. Nothing overlaps in this loop; in a program whose streams meet anyway it costs nothing.
fn with_wait_stream(gpu: &Gpu, copies: Stream, compute: Stream, results: &[Floats]) -> Result {
    for (batch, result) in results.iter().enumerate() {
        let input = gpu.floats(COUNT, copies)?;
        gpu.upload(&input, &contents(batch), copies)?;
        gpu.cuda.wait_stream(compute, copies)?;
        gpu.scale(result, &input, 2.0, compute)?;
        gpu.cuda.record_stream(input.block(), compute)?;
        drop(input);
        gpu.cuda.wait_stream(copies, compute)?;
    }
    Ok(())
}

/// An input is kept until `copies` has waited for its use, two batches later: then it may go like any memory of that
/// stream, and the allocator has to be told of nothing.
fn held_until_they_meet(gpu: &Gpu, copies: Stream, compute: Stream, results: &[Floats]) -> Result {
    let mut in_use: VecDeque<(Floats, CudaEvent)> = VecDeque::new();
    for (batch, result) in results.iter().enumerate() {
        if in_use.len() == 2
            && let Some((input, used)) = in_use.pop_front()
        {
            used.wait(copies)?;
            drop(input);
        }
        let input = gpu.floats(COUNT, copies)?;
        gpu.upload(&input, &contents(batch), copies)?;
        after(gpu, copies)?.wait(compute)?;
        gpu.scale(result, &input, 2.0, compute)?;
        in_use.push_back((input, after(gpu, compute)?));
    }
    in_use.iter().try_for_each(|(_, used)| Ok(used.wait(copies)?))
}

/// The place after all that a stream holds.
fn after(gpu: &Gpu, stream: Stream) -> Result<CudaEvent> {
    let event = CudaEvent::new(gpu.runtime(), Default::default())?;
    event.record(stream)?;
    Ok(event)
}

/// Runs one way with an allocator of its own, and checks what came of each batch.
fn report(
    name: &str,
    driver: &Arc<dyn Driver>,
    way: impl FnOnce(&Gpu, Stream, Stream, &[Floats]) -> Result,
) -> Result {
    let gpu = Gpu::new(driver, "")?;
    let (copies, compute) = (gpu.runtime().stream_from_pool(0, 0)?, gpu.runtime().stream_from_pool(0, 0)?);
    let results = (0..BATCHES).map(|_| gpu.floats(COUNT, compute)).collect::<Result<Vec<_>>>()?;
    let before = gpu.cuda.memory_reserved(0)?;
    way(&gpu, copies, compute, &results)?;
    let inputs = (gpu.cuda.memory_reserved(0)? - before) >> 20;

    for (batch, result) in results.iter().enumerate() {
        let expected: Vec<f32> = contents(batch).iter().map(|value| value * 2.0).collect();
        if gpu.download(result, compute)? != expected {
            return Err(format!("{name}: batch {batch} is wrong").into());
        }
    }
    println!("{name}: {BATCHES} batches of 4 MiB, through {inputs} MiB");
    Ok(())
}

/// What a batch holds.
fn contents(batch: usize) -> Vec<f32> {
    (0..COUNT).map(|i| (i % 1000 + batch * 1000) as f32).collect()
}
