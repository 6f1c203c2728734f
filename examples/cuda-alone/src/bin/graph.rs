//! A graph: captured once with its memory in a pool of its own, launched again with other inputs, and updated.

#![expect(unsafe_code, reason = "launches a graph, whose memory it keeps")]
#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::process::ExitCode;
use std::sync::Arc;

use c10_core::Stream;
use c10_cuda::alloc::{CapturedGraph, MempoolId};
use c10_cuda::driver::{CaptureMode, Driver, GraphExecHandle};
use cuda_alone::{Floats, Gpu, Result, run};

const COUNT: usize = 1 << 16;

fn main() -> ExitCode {
    run(example)
}

fn example(driver: Arc<dyn Driver>) -> Result {
    let gpu = Gpu::new(&driver, "")?;
    let stream = gpu.runtime().stream_from_pool(0, 0)?;

    // Inputs and results have addresses of their own: a launch finds them where they were at the capture.
    let (input, output) = (gpu.floats(COUNT, stream)?, gpu.floats(COUNT, stream)?);
    let pool = gpu.cuda.new_graph_pool_id();
    let graph = capture(&gpu, stream, pool, [&input, &output], 3.0)?;
    let held: u64 = gpu.cuda.snapshot_of(pool, false).segments.iter().map(|segment| segment.total_size).sum();
    println!(
        "captured {} nodes; their memory is {} MiB of a pool of its own",
        graph.node_count()?,
        held >> 20
    );

    let launchable = Launchable { gpu: &gpu, exec: driver.graph_instantiate(graph.handle())? };
    for round in 0..4 {
        launchable.launch_and_check(stream, [&input, &output], round, 3.0)?;
    }
    println!("launched 4 times with other inputs, and every result is right");

    // The same work with another factor. It takes the same memory: the graphs share a pool, and run one at a time.
    let other = capture(&gpu, stream, pool, [&input, &output], 5.0)?;
    driver.graph_exec_update(launchable.exec, other.handle())?;
    launchable.launch_and_check(stream, [&input, &output], 4, 5.0)?;
    println!("updated, launched once more, and the result is right");
    Ok(())
}

/// A graph that can be launched, as long as its pool is kept.
struct Launchable<'a> {
    gpu: &'a Gpu,
    exec: GraphExecHandle,
}

impl Launchable<'_> {
    fn launch_and_check(
        &self,
        stream: Stream,
        [input, output]: [&Floats; 2],
        round: usize,
        factor: f32,
    ) -> Result {
        let values: Vec<f32> = (0..COUNT).map(|i| (i + round) as f32).collect();
        self.gpu.upload(input, &values, stream)?;
        let on = self.gpu.runtime().handle(stream)?;
        // SAFETY: the graph's pool, the input and the result are here until the stream has been waited for.
        unsafe { self.gpu.runtime().driver().graph_launch(self.exec, on) }?;
        let found = self.gpu.download(output, stream)?;
        let wrong = values.iter().zip(&found).position(|(value, found)| *found != value * factor + value);
        wrong.map_or(Ok(()), |at| Err(format!("number {at} is {}, of {}", found[at], values[at]).into()))
    }
}

impl Drop for Launchable<'_> {
    fn drop(&mut self) {
        // A driver that is gone has ended it.
        let _ = self.gpu.runtime().driver().graph_exec_destroy(self.exec);
    }
}

/// `output = input * factor + input`. What lies between belongs to the graph's pool, and is free for the graph's own
/// later requests alone.
fn capture(
    gpu: &Gpu,
    stream: Stream,
    pool: MempoolId,
    [input, output]: [&Floats; 2],
    factor: f32,
) -> Result<CapturedGraph> {
    let capture = gpu.cuda.begin_capture(stream, pool, CaptureMode::ThreadLocal)?;
    let scaled = gpu.floats(COUNT, stream)?;
    gpu.scale(&scaled, input, factor, stream)?;
    gpu.add(output, &scaled, input, stream)?;
    drop(scaled);
    Ok(capture.end()?)
}
