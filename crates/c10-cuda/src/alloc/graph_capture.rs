//! [`GraphCapture`]: a capture whose allocations go to a pool of their own (`CUDAGraph::capture_begin`,
//! `capture_end`), and [`CapturedGraph`], which keeps that pool.

use std::marker::PhantomData;

use c10_core::Stream;

use super::CachingAllocator;
use super::mempool_id::{MempoolId, PoolFilter};
use crate::driver::{CaptureMode, GraphHandle, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::CudaStreamGuard;
use crate::sync::MutexGuard;

/// Records what is issued on a stream into a graph, and sends what is allocated for the streams that take part to
/// a pool, until it is [ended](Self::end) or dropped. The stream is current on this thread meanwhile.
///
/// ```
/// use c10_cuda::driver::CaptureMode;
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CachingAllocator, Config};
///
/// let cuda = CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(1 << 30)), Config::default())?;
/// let stream = cuda.runtime().stream_from_pool(0, 0)?;
/// let capture = cuda.begin_capture(stream, cuda.new_graph_pool_id(), CaptureMode::Global)?;
/// let activations = cuda.allocate(4096)?; // … and launch kernels.
/// let graph = capture.end()?;
/// assert_eq!(graph.node_count()?, 0);
/// assert_eq!(cuda.snapshot_of(graph.pool(), false).segments.len(), 1);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
#[must_use = "the capture ends, and its graph is lost, as soon as this is dropped"]
#[derive(Debug)]
pub struct GraphCapture<'a> {
    allocator: &'a CachingAllocator,
    stream: StreamHandle,
    pool: MempoolId,
    /// Whether there is a capture to end.
    is_open: bool,
    /// Restored when the capture has ended.
    _current: CudaStreamGuard<'a>,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

/// What a capture recorded. While it lives, its pool is in use.
#[derive(Debug)]
pub struct CapturedGraph {
    allocator: CachingAllocator,
    graph: GraphHandle,
    pool: MempoolId,
}

impl CachingAllocator {
    /// Begins to capture a stream, and makes it current on this thread. What is allocated for streams of the capture
    /// goes to `pool`, which several graphs may share.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the runtime or a default stream, and as
    /// [`begin_allocate_to_pool`](Self::begin_allocate_to_pool) says; what the driver reports. Nothing captures then.
    pub fn begin_capture(
        &self,
        stream: Stream,
        pool: MempoolId,
        mode: CaptureMode,
    ) -> Result<GraphCapture<'_>> {
        let on = self.runtime().handle(stream)?;
        if on.raw == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay \
                 them on the default stream.)",
            ));
        }
        let driver = self.runtime().driver();
        let current = self.runtime().stream_guard(stream)?;
        driver.stream_begin_capture(on, mode)?;
        let begun = driver.capture_info(on).map_err(Error::from).and_then(|info| {
            let number = info.map_or(0, |info| info.id);
            self.begin_allocate_to_pool(on.device, pool, PoolFilter::Capture(number))
        });
        if let Err(error) = begun {
            // There is an error to report already.
            let _ = driver.stream_end_capture(on).and_then(|graph| driver.graph_destroy(graph));
            return Err(error);
        }
        let capture = GraphCapture {
            allocator: self,
            stream: on,
            pool,
            is_open: true,
            _current: current,
            not_send: PhantomData,
        };
        self.mark_capture_begin(on.device)?;
        Ok(capture)
    }
}

impl GraphCapture<'_> {
    /// The pool that allocations go to.
    pub fn pool(&self) -> MempoolId {
        self.pool
    }

    /// Ends the capture. Blocks that other streams used in it are free from here on, or wait for what those did
    /// before.
    ///
    /// # Errors
    /// What the driver reports: a capture that was spoilt, or streams that were not joined. The capture has ended,
    /// and its use of the pool too.
    pub fn end(mut self) -> Result<CapturedGraph> {
        let graph = self.close()?;
        Ok(CapturedGraph { allocator: self.allocator.clone(), graph, pool: self.pool })
    }

    /// Ends the capture on all sides, whatever happens. The pool's use is the graph's, and goes where there is none.
    fn close(&mut self) -> Result<GraphHandle> {
        self.is_open = false;
        let (allocator, device) = (self.allocator, self.stream.device);
        let ended = allocator.runtime().driver().stream_end_capture(self.stream).map_err(Error::from);
        let marked = allocator.mark_capture_end(device);
        let left = allocator.end_allocate_to_pool(device, self.pool);
        match (ended, marked.and(left)) {
            (Ok(graph), Ok(())) => Ok(graph),
            (ended, rest) => {
                let _ = allocator.release_pool(device, self.pool);
                let error = rest.err();
                match ended {
                    Ok(graph) => {
                        let _ = allocator.runtime().driver().graph_destroy(graph);
                        Err(error.expect("one of the two has failed"))
                    }
                    Err(first) => Err(first),
                }
            }
        }
    }
}

impl Drop for GraphCapture<'_> {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(graph) = self.close()
        {
            let allocator = self.allocator;
            // Nobody wants it, and nobody is told.
            let _ = allocator.runtime().driver().graph_destroy(graph);
            let _ = allocator.release_pool(self.stream.device, self.pool);
        }
    }
}

impl CapturedGraph {
    /// The pool that holds its memory.
    pub fn pool(&self) -> MempoolId {
        self.pool
    }

    /// The driver's handle.
    pub fn handle(&self) -> GraphHandle {
        self.graph
    }

    /// How many nodes it has.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn node_count(&self) -> Result<usize> {
        Ok(self.allocator.runtime().driver().graph_node_count(self.graph)?)
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        // A driver that is gone has ended its graphs.
        let _ = self.allocator.runtime().driver().graph_destroy(self.graph);
        let _ = self.allocator.release_pool(self.graph.device, self.pool);
    }
}
