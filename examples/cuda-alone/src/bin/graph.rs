//! A graph: captured once with its memory in a pool of its own, replayed with other inputs, and updated.

#![expect(unsafe_code, reason = "replays a graph, whose inputs and results it keeps")]
#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::process::ExitCode;
use std::sync::Arc;

use c10_core::Stream;
use c10_cuda::driver::{CaptureMode, Driver};
use c10_cuda::{CaptureOptions, CudaGraph};
use cuda_alone::{Floats, Gpu, Result, run};

const COUNT: usize = 1 << 16;

fn main() -> ExitCode {
    run(example)
}

fn example(driver: Arc<dyn Driver>) -> Result {
    let gpu = Gpu::new(&driver, "")?;
    let stream = gpu.runtime().stream_from_pool(0, 0)?;

    // Inputs and results have addresses of their own: a replay finds them where they were at the capture.
    let (input, output) = (gpu.floats(COUNT, stream)?, gpu.floats(COUNT, stream)?);
    let mut graph = capture(&gpu, stream, [&input, &output], 3.0, CaptureOptions::default())?;
    let held: u64 =
        gpu.cuda.snapshot_of(graph.pool(), false).segments.iter().map(|segment| segment.total_size).sum();
    println!(
        "captured {} nodes; their memory is {} MiB of a pool of its own",
        graph.node_count(),
        held >> 20
    );

    for round in 0..4 {
        replay_and_check(&gpu, &graph, stream, [&input, &output], round, 3.0)?;
    }
    println!("replayed 4 times with other inputs, and every result is right");

    // The same work with another factor. It takes the same memory: the graphs share a pool, and run one at a time.
    let options = CaptureOptions { keep_graph: true, ..CaptureOptions::in_pool(graph.pool()) };
    let other = capture(&gpu, stream, [&input, &output], 5.0, options)?;
    graph.update(&other)?;
    drop(other);
    replay_and_check(&gpu, &graph, stream, [&input, &output], 4, 5.0)?;
    println!("updated, replayed once more, and the result is right");
    Ok(())
}

/// `output = input * factor + input`. What lies between belongs to the graph's pool, and is free for the graph's own
/// later requests alone.
fn capture(
    gpu: &Gpu,
    stream: Stream,
    [input, output]: [&Floats; 2],
    factor: f32,
    options: CaptureOptions,
) -> Result<CudaGraph> {
    let options = CaptureOptions { mode: CaptureMode::ThreadLocal, ..options };
    let (graph, ()) = CudaGraph::capture(&gpu.cuda, stream, options, |_| -> Result {
        let scaled = gpu.floats(COUNT, stream)?;
        gpu.scale(&scaled, input, factor, stream)?;
        gpu.add(output, &scaled, input, stream)
    })?;
    Ok(graph)
}

fn replay_and_check(
    gpu: &Gpu,
    graph: &CudaGraph,
    stream: Stream,
    [input, output]: [&Floats; 2],
    round: usize,
    factor: f32,
) -> Result {
    let values: Vec<f32> = (0..COUNT).map(|i| (i + round) as f32).collect();
    gpu.upload(input, &values, stream)?;
    // SAFETY: input and result are here until the stream has been waited for, and nothing else uses them.
    unsafe { graph.replay_on(stream) }?;
    let found = gpu.download(output, stream)?;
    let wrong = values.iter().zip(&found).position(|(value, found)| *found != value * factor + value);
    wrong.map_or(Ok(()), |at| Err(format!("number {at} is {}, of {}", found[at], values[at]).into()))
}
