//! [`GraphCapture`]: a capture that is under way (`CUDAGraph::capture_begin`, `capture_end`).

use std::marker::PhantomData;

use super::cuda_graph::{CudaGraph, Recorded, Work};
use super::options::CaptureOptions;
use super::randomness::{Draws, GraphDraws};
use crate::alloc::{CachingAllocator, MempoolId, PoolFilter};
use crate::driver::{CaptureState, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::CudaStreamGuard;
use crate::runtime::Runtime;
use crate::stream::AsStream;
use crate::sync::MutexGuard;

/// How often a capture that nobody wants is told to end.
const TRIES: usize = 3;

/// Records what is issued on a stream into a graph, and sends what is allocated for the streams that take part to
/// a pool, until it is [ended](Self::end) or dropped. The stream is current on this thread meanwhile.
///
/// ```
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CachingAllocator, CaptureOptions, Config, CudaGraph, CudaStream};
///
/// let cuda = CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(1 << 30)), Config::default())?;
/// let stream = CudaStream::from_pool(cuda.runtime(), 0, 0)?;
/// let options = CaptureOptions { keep_graph: true, ..CaptureOptions::default() };
/// let capture = CudaGraph::begin(&cuda, &stream, options)?;
/// let activations = cuda.allocate(4096)?; // … and launch kernels.
/// let graph = capture.end()?;
/// assert!(graph.is_empty());
/// assert_eq!(cuda.snapshot_of(graph.pool(), false).segments.len(), 1);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
#[must_use = "the capture ends, and its graph is lost, as soon as this is dropped"]
#[derive(Debug)]
pub struct GraphCapture<'a> {
    allocator: &'a CachingAllocator,
    stream: StreamHandle,
    /// The driver's number of the capture.
    number: u64,
    pool: MempoolId,
    keep_graph: bool,
    draws: Draws,
    /// Whether there is a capture to end.
    is_open: bool,
    /// Restored when the capture has ended.
    _current: CudaStreamGuard<'a>,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl CudaGraph {
    /// Begins to capture a stream, and makes it current on this thread. [`capture`](Self::capture) is the form that
    /// cannot be left open.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the allocator's runtime or a default stream, for a
    /// generator of another device or runtime, and as [`begin_allocate_to_pool`](CachingAllocator::begin_allocate_to_pool) says;
    /// what the driver reports. Nothing captures then.
    pub fn begin(
        allocator: &CachingAllocator,
        stream: impl AsStream,
        options: CaptureOptions,
    ) -> Result<GraphCapture<'_>> {
        let runtime = allocator.runtime();
        let on = runtime.owning_handle(&stream)?;
        if on.raw == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay \
                 them on the default stream.)",
            ));
        }
        let draws = Draws::new(runtime, on.device, options.generators)?;
        runtime.ready()?;
        let pool = options.pool.unwrap_or_else(|| allocator.new_graph_pool_id());
        let current = runtime.stream_guard(&stream)?;
        // Before the driver's capture begins, so that no call of another thread spoils its first moments.
        allocator.mark_capture_begin(on.device)?;
        let begun = begin(allocator, on, options.mode, pool);
        let number = begun.inspect_err(|_| {
            // There is an error to report already.
            let _ = allocator.mark_capture_end(on.device);
        })?;
        draws.begin(allocator, on.device, number);
        Ok(GraphCapture {
            allocator,
            stream: on,
            number,
            pool,
            keep_graph: options.keep_graph,
            draws,
            is_open: true,
            _current: current,
            not_send: PhantomData,
        })
    }
}

/// Begins the driver's capture, and its allocations to the pool. The capture's number.
fn begin(
    allocator: &CachingAllocator,
    on: StreamHandle,
    mode: crate::driver::CaptureMode,
    pool: MempoolId,
) -> Result<u64> {
    let driver = allocator.runtime().driver();
    driver.stream_begin_capture(on, mode)?;
    let begun = driver.capture_state(on).map_err(Error::from).and_then(|state| match state {
        CaptureState::Active { id } | CaptureState::Invalidated { id } => {
            allocator.begin_allocate_to_pool(on.device, pool, PoolFilter::Capture(id))?;
            allocator.add_graph(on.device, pool);
            Ok(id)
        }
        CaptureState::None => {
            Err(Error::new(ErrorKind::Capture, "the stream captures no more: somebody has ended it"))
        }
    });
    begun.inspect_err(|_| abandon(allocator.runtime(), on))
}

/// Ends what the driver captures on a stream, and its graph. It is tried again if the driver did nothing when it was told
/// to, so that one error does not leave the stream capturing.
#[cold]
fn abandon(runtime: &Runtime, on: StreamHandle) {
    let driver = runtime.driver();
    for _ in 0..TRIES {
        if let Ok(graph) = driver.stream_end_capture(on) {
            return runtime.note(driver.graph_destroy(graph));
        }
        if driver.capture_state(on) == Ok(CaptureState::None) {
            return;
        }
    }
}

impl GraphCapture<'_> {
    /// The pool that allocations go to.
    pub fn pool(&self) -> MempoolId {
        self.pool
    }

    /// The stream on which it began.
    pub fn stream(&self) -> StreamHandle {
        self.stream
    }

    /// Whether nothing has spoilt it yet.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn is_sound(&self) -> Result<bool> {
        let state = self.allocator.runtime().driver().capture_state(self.stream)?;
        Ok(state == CaptureState::Active { id: self.number })
    }

    /// Ends the capture, and makes the graph launchable unless it was to be [kept](CaptureOptions::keep_graph). Blocks
    /// that other streams used in it are free from here on, or wait for what those did before.
    ///
    /// # Errors
    /// What the driver reports: [`ErrorKind::Capture`] for a capture that was spoilt, or streams that were not joined.
    /// The capture has ended, and its use of the pool too.
    pub fn end(mut self) -> Result<CudaGraph> {
        let mut graph = self.close()?;
        if !self.keep_graph {
            graph.instantiate_only()?;
        }
        Ok(graph)
    }

    /// Ends the capture on all sides, whatever happens. The use of the pools is the graph's, and goes where there is
    /// none.
    fn close(&mut self) -> Result<CudaGraph> {
        self.is_open = false;
        let (allocator, device) = (self.allocator, self.stream.device);
        let driver = allocator.runtime().driver();
        let ended = driver.stream_end_capture(self.stream).map_err(Error::from);
        if ended.is_err() && driver.capture_state(self.stream) != Ok(CaptureState::None) {
            abandon(allocator.runtime(), self.stream);
        }
        let draws: GraphDraws = self.draws.end(self.number);
        let mut pools = vec![self.pool];
        pools.extend(allocator.take_retained(device, self.number));
        let marked = allocator.mark_capture_end(device);
        let left = allocator.end_allocate_to_pool(device, self.pool);
        let rest = marked.and(left);
        match ended {
            Ok(graph) => {
                let nodes = driver.graph_node_count(graph).map_err(Error::from);
                let recorded =
                    Recorded { graph, work: Work { pools, draws, nodes: *nodes.as_ref().unwrap_or(&0) } };
                // Dropped, it gives everything back.
                let graph = CudaGraph::new(allocator, device, recorded);
                rest.and(nodes).map(|_| graph)
            }
            Err(error) => {
                drop(draws);
                for pool in pools {
                    let _ = allocator.remove_graph(device, pool);
                }
                Err(error)
            }
        }
    }
}

impl Drop for GraphCapture<'_> {
    fn drop(&mut self) {
        if self.is_open
            && let Err(error) = self.close()
            && let Some(met) = error.driver()
            && error.kind() != ErrorKind::Capture
        {
            // That it was spoilt is no news to who gives it up.
            self.allocator.runtime().note::<()>(Err(*met));
        }
    }
}
