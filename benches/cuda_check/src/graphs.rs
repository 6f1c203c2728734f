#![expect(unsafe_code, reason = "replays graphs, whose inputs and results it keeps")]
//! Graphs that share a pool, launched between allocations that want all other memory.

use c10_core::Stream;
use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::{CaptureMode, real};
use c10_cuda::{CaptureOptions, CudaGraph};
use clap::Args as ClapArgs;
use cuda_alone::{Floats, Gpu};

use crate::{Result, figure};

/// What is done.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// How many graphs
    #[arg(long, default_value_t = 8)]
    graphs: usize,
    /// How often each is launched
    #[arg(long, default_value_t = 20)]
    launches: usize,
    /// Numbers in each array
    #[arg(long, default_value_t = 1 << 20)]
    count: usize,
}

/// One graph: `output = input * factor + input`, by steps that take memory of the pool.
struct Captured {
    graph: CudaGraph,
    factor: f32,
    output: Floats,
}

pub(crate) fn run(args: &Args) -> Result {
    let driver = real::load()?;
    let gpu = Gpu::new(&driver, "")?;
    let stream = gpu.runtime().stream_from_pool(0, 0)?;
    let input = gpu.floats(args.count, stream)?;
    let pool = gpu.cuda.new_graph_pool_id();
    let graphs = (0..args.graphs)
        .map(|number| capture(&gpu, stream, pool, &input, (number + 2) as f32))
        .collect::<Result<Vec<_>>>()?;
    launch_all(&gpu, stream, &input, &graphs, args.launches)?;
    figure::print("graphs", args.graphs as f64, "");
    figure::print("launches", (args.graphs * args.launches) as f64, "");
    Ok(())
}

fn capture(gpu: &Gpu, stream: Stream, pool: MempoolId, input: &Floats, factor: f32) -> Result<Captured> {
    let count = input.count();
    let output = gpu.floats(count, stream)?;
    let options = CaptureOptions { mode: CaptureMode::ThreadLocal, ..CaptureOptions::in_pool(pool) };
    let (graph, ()) = CudaGraph::capture(&gpu.cuda, stream, options, |_| -> Result {
        let scaled = gpu.floats(count, stream)?;
        gpu.scale(&scaled, input, factor, stream)?;
        let doubled = gpu.floats(count, stream)?;
        gpu.scale(&doubled, &scaled, 2.0, stream)?;
        drop(scaled);
        let halved = gpu.floats(count, stream)?;
        gpu.scale(&halved, &doubled, 0.5, stream)?;
        gpu.add(&output, &halved, input, stream)
    })?;
    Ok(Captured { graph, factor, output })
}

/// Launches the graphs in turn. Between two rounds the cache is emptied, and memory is taken and overwritten: none of
/// it may be the graphs'.
fn launch_all(gpu: &Gpu, stream: Stream, input: &Floats, graphs: &[Captured], launches: usize) -> Result {
    for round in 0..launches {
        let values: Vec<f32> = (0..input.count()).map(|i| ((i + round) % 1024) as f32).collect();
        gpu.upload(input, &values, stream)?;
        gpu.cuda.empty_cache()?;
        let spoilers = (0..4).map(|_| gpu.floats(input.count(), stream)).collect::<Result<Vec<_>>>()?;
        for spoiler in &spoilers {
            gpu.scale(spoiler, input, -1.0, stream)?;
        }
        drop(spoilers);
        for graph in graphs {
            // SAFETY: input and result are here until the stream has been waited for, and the graphs run one by one.
            unsafe { graph.graph.replay_on(stream) }?;
        }
        for graph in graphs {
            let found = gpu.download(&graph.output, stream)?;
            let expected = |value: f32| value * graph.factor + value;
            if let Some(at) = values.iter().zip(&found).position(|(value, found)| *found != expected(*value))
            {
                let (found, value) = (found[at], values[at]);
                return Err(format!("round {round}, factor {}: {found} of {value}", graph.factor).into());
            }
        }
    }
    Ok(())
}
