#![expect(unsafe_code, reason = "launches what was captured, on the promise of who asks for it")]
//! [`CudaGraph`]: a capture that can be replayed (`at::cuda::CUDAGraph`).

use std::fmt;

use c10_core::DeviceIndex;

use super::capture::GraphCapture;
use super::launches::{LaunchStream, Launches};
use super::options::CaptureOptions;
use super::randomness::GraphDraws;
use crate::alloc::{CachingAllocator, MempoolId};
use crate::driver::{CaptureState, DriverError, GraphExecHandle, GraphHandle, Status};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::AsStream;
use crate::stream::id::StreamKind;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// Captured work, replayed as a whole. While it lives its pools are in use; their memory can go back when it and the
/// work of its launches are gone.
///
/// ```
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CachingAllocator, CaptureOptions, Config, CudaGraph, CudaStream, Error};
///
/// let cuda = CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(1 << 30)), Config::default())?;
/// let stream = CudaStream::from_pool(cuda.runtime(), 0, 0)?;
/// let (graph, output) = CudaGraph::capture(&cuda, &stream, CaptureOptions::default(), |_| {
///     let output = cuda.allocate(4096)?;
///     // … launch kernels on the current stream that write it …
///     Ok::<_, Error>(output)
/// })?;
/// for _ in 0..3 {
///     // SAFETY: all memory that the captured work uses is the graph's own.
///     unsafe { graph.replay() }?;
/// }
/// cuda.runtime().synchronize(0)?;
/// assert_eq!(graph.replays(), 3);
/// # drop(output);
/// # Ok::<(), Error>(())
/// ```
pub struct CudaGraph {
    allocator: CachingAllocator,
    device: DeviceIndex,
    /// The first of those of the work that it does, or did.
    pool: MempoolId,
    /// `None` once it is reset.
    captured: Option<Captured>,
}

/// What a capture gave.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) graph: GraphHandle,
    pub(super) work: Work,
}

/// What a graph does.
#[derive(Debug)]
pub(crate) struct Work {
    /// The pools that it uses, the capture's own first.
    pub(super) pools: Vec<MempoolId>,
    pub(super) draws: GraphDraws,
    pub(super) nodes: usize,
}

#[derive(Debug)]
struct Captured {
    /// What was recorded, until that is launchable or while it is kept.
    recorded: Option<(GraphHandle, Arc<Work>)>,
    /// What is launched.
    exec: Option<GraphExecHandle>,
    /// What that does; before there is one, what was recorded.
    work: Arc<Work>,
    launches: Mutex<Launches>,
    replays: AtomicU64,
}

impl CudaGraph {
    pub(super) fn new(allocator: &CachingAllocator, device: DeviceIndex, recorded: Recorded) -> Self {
        let Recorded { graph, work } = recorded;
        let work = Arc::new(work);
        let pool = work.pools[0];
        let captured = Captured {
            recorded: Some((graph, Arc::clone(&work))),
            exec: None,
            work,
            launches: Mutex::default(),
            replays: AtomicU64::new(0),
        };
        Self { allocator: allocator.clone(), device, pool, captured: Some(captured) }
    }

    /// Captures what `work` issues on `stream`, which is current on this thread meanwhile, and on the streams that it
    /// brings in by events. The graph, and what `work` gives. When `work` fails or panics the capture ends with no
    /// graph.
    ///
    /// # Errors
    /// What `work` returns; as [`begin`](Self::begin) and [`GraphCapture::end`] say.
    pub fn capture<T, E: From<Error>>(
        allocator: &CachingAllocator,
        stream: impl AsStream,
        options: CaptureOptions,
        work: impl FnOnce(&GraphCapture<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<(Self, T), E> {
        let capture = Self::begin(allocator, stream, options)?;
        let given = work(&capture)?;
        Ok((capture.end()?, given))
    }

    /// Makes what was recorded launchable (`instantiate`). Only a [kept](CaptureOptions::keep_graph) graph needs it;
    /// again it begins anew, once the launches before are done, with what it recorded itself.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where nothing recorded is kept; what the driver reports. The graph is as it was
    /// then.
    pub fn instantiate(&mut self) -> Result<()> {
        let runtime = self.allocator.runtime();
        runtime.ready()?;
        let driver = runtime.driver();
        let captured = self.captured.as_mut().ok_or_else(not_captured)?;
        let (graph, work) = captured.recorded.as_ref().ok_or_else(|| {
            invalid("instantiate: what was recorded is not kept: capture with `CaptureOptions::keep_graph`")
        })?;
        let exec = driver.graph_instantiate(*graph)?;
        let (before, work) = (captured.exec.replace(exec), Arc::clone(work));
        self.does(work);
        Ok(before.map_or(Ok(()), |before| self.allocator.runtime().driver().graph_exec_destroy(before))?)
    }

    /// Notes what it does from here on. What it did before, if that is not what it has recorded, ends with the launches
    /// so far.
    fn does(&mut self, work: Arc<Work>) {
        let Some(captured) = self.captured.as_mut() else { return };
        self.pool = work.pools[0];
        let before = std::mem::replace(&mut captured.work, work);
        if captured.keeps(&before) {
            return;
        }
        let held = captured.pools();
        let left: Vec<_> = before.pools.iter().copied().filter(|pool| !held.contains(pool)).collect();
        let launches = lock(&captured.launches).share();
        let ended = self.allocator.end_graph(self.device, &left, launches, vec![before]);
        if let Some(met) = ended.err().as_ref().and_then(Error::driver) {
            // It does the other work all the same.
            self.allocator.runtime().note::<()>(Err(*met));
        }
    }

    /// The same, and lets what was recorded go.
    pub(super) fn instantiate_only(&mut self) -> Result<()> {
        self.instantiate()?;
        let Some(captured) = &mut self.captured else { return Ok(()) };
        if let Some((graph, _)) = &captured.recorded {
            self.allocator.runtime().driver().graph_destroy(*graph)?;
        }
        // One that the driver does not let go is there for the drop, which asks again.
        captured.recorded = None;
        Ok(())
    }

    /// Runs the graph, in the order of the current stream of its device (`replay`).
    ///
    /// # Safety
    /// Memory that the captured work uses and that is not of the graph's pools is valid until the stream has run it, and
    /// nothing that is not ordered with that uses it, or memory of the pools, in another way. Graphs that share a pool
    /// are replayed one after the other, in the order in which they were captured, and blocks of the pool that the
    /// program gave back hold nothing that it needs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] before it is [instantiated](Self::instantiate) and after it was
    /// [reset](Self::reset), and on the per-thread default stream, which is another stream on each thread;
    /// [`ErrorKind::Capture`] where the stream captures; what the driver reports. Nothing was launched then and nothing
    /// drawn, unless [`replays`](Self::replays) has counted it: a launch behind which the driver refused to record an
    /// event is told as an error, and has drawn its numbers. The next replay waits for the device then, and is refused
    /// while a capture is under way.
    pub unsafe fn replay(&self) -> Result<()> {
        let stream = self.allocator.runtime().current_stream(self.device)?;
        // SAFETY: the caller's promise.
        unsafe { self.replay_on(stream) }
    }

    /// Runs the graph in the order of a stream of its device, behind its launches on others.
    ///
    /// # Safety
    /// As [`replay`](Self::replay).
    ///
    /// # Errors
    /// As there, and [`ErrorKind::InvalidArgument`] when it is no stream of the runtime or of another device.
    pub unsafe fn replay_on(&self, stream: impl AsStream) -> Result<()> {
        let (captured, exec, on) = self.launchable(stream)?;
        let runtime = self.allocator.runtime();
        let driver = &**runtime.driver();
        // One at a time: what is written for one replay is read by that one.
        let mut launches = lock(&captured.launches);
        let event = launches.prepare(driver, runtime.captures(), on)?;
        let draws = &captured.work.draws;
        let taken = draws.take().inspect_err(|_| launches.failed(event, false))?;
        let mut is_issued = false;
        let written = draws.write(&self.allocator, on.handle, &taken, &mut is_issued);
        let launched = written.and_then(|()| {
            // SAFETY: the memory of its pools is the graph's until what was launched is done; for the rest the caller
            // answers.
            Ok(unsafe { driver.graph_launch(exec, on.handle) }?)
        });
        launched.inspect_err(|_| {
            draws.give_back(&taken);
            launches.failed(event, is_issued);
        })?;
        captured.replays.fetch_add(1, Ordering::Relaxed);
        Ok(launches.issued(driver, on, event)?)
    }

    /// Does beforehand, in the order of a stream, what the first replay would do (`cudaGraphUpload`).
    ///
    /// # Errors
    /// As [`replay_on`](Self::replay_on).
    pub fn upload(&self, stream: impl AsStream) -> Result<()> {
        let (_, exec, on) = self.launchable(stream)?;
        Ok(self.allocator.runtime().driver().graph_upload(exec, on.handle)?)
    }

    fn launchable(&self, stream: impl AsStream) -> Result<(&Captured, GraphExecHandle, LaunchStream)> {
        let runtime = self.allocator.runtime();
        let is_external = matches!(StreamKind::of(stream.as_stream().id()), Some(StreamKind::External(_)));
        let on = runtime.owning_handle(stream)?;
        if on.device != self.device {
            return Err(invalid(&format!(
                "a graph of device {} cannot be replayed on a stream of device {}",
                self.device, on.device
            )));
        }
        let captured = self.captured.as_ref().ok_or_else(not_captured)?;
        let exec = captured.exec.ok_or_else(|| {
            invalid("replay: the graph was kept, and is to be instantiated by `instantiate` before it is replayed")
        })?;
        runtime.ready()?;
        if runtime.driver().capture_state(on)? != CaptureState::None {
            return Err(Error::new(
                ErrorKind::Capture,
                "a graph cannot be replayed into a capture: end the capture first, or capture the work itself",
            ));
        }
        Ok((captured, exec, LaunchStream { handle: on, is_external }))
    }

    /// Makes the next replays do what another graph recorded, of the same shape (`cudaGraphExecUpdate`). They use the
    /// memory and the random state of the other, whose pools this graph then keeps. Those that it used before are its own
    /// as long as what it recorded is [kept](CaptureOptions::keep_graph), and else until its launches so far are done.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the other is of another shape, device or allocator or was not
    /// [kept](CaptureOptions::keep_graph), and when this one is not launchable; what the driver reports. The graph is
    /// as it was then.
    pub fn update(&mut self, from: &Self) -> Result<()> {
        let runtime = self.allocator.runtime();
        if from.device != self.device || !self.allocator.is(&from.allocator) {
            return Err(invalid("update: the graphs are of different devices or allocators"));
        }
        let source = from.captured.as_ref().ok_or_else(not_captured)?;
        let (graph, work) = source.recorded.as_ref().ok_or_else(|| {
            invalid("update: what the other graph recorded is not kept: capture with `CaptureOptions::keep_graph`")
        })?;
        let captured = self.captured.as_ref().ok_or_else(not_captured)?;
        let exec = captured.exec.ok_or_else(|| invalid("update: the graph is to be instantiated first"))?;
        runtime.ready()?;
        let held = captured.pools();
        let new: Vec<_> = work.pools.iter().copied().filter(|pool| !held.contains(pool)).collect();
        for (at, pool) in new.iter().enumerate() {
            let kept = self.allocator.share_graph(self.device, *pool);
            if kept.is_err() {
                new[..at].iter().for_each(|pool| self.allocator.drop_graph(self.device, *pool));
                return kept;
            }
        }
        if let Err(error) = runtime.driver().graph_exec_update(exec, *graph) {
            new.iter().for_each(|pool| self.allocator.drop_graph(self.device, *pool));
            return Err(match error.status {
                Status::GraphUpdateFailure => Error::of_driver(
                    ErrorKind::InvalidArgument,
                    error,
                    format!("update: {error}; the graph replays what it did"),
                ),
                _ => error.into(),
            });
        }
        self.does(Arc::clone(work));
        Ok(())
    }

    /// Gives everything up that it has (`reset`): what it launched runs to its end, and its memory goes back after
    /// that. Dropping it does the same.
    ///
    /// # Errors
    /// The first that the driver reports, after all has been given up.
    pub fn reset(&mut self) -> Result<()> {
        let Some(captured) = self.captured.take() else { return Ok(()) };
        let pools = captured.pools();
        let Captured { recorded, exec, work, launches, .. } = captured;
        let driver = self.allocator.runtime().driver();
        let mut result: Result<(), DriverError> = exec.map_or(Ok(()), |exec| driver.graph_exec_destroy(exec));
        let mut works = vec![work];
        if let Some((graph, recorded)) = recorded {
            result = result.and(driver.graph_destroy(graph));
            works.push(recorded);
        }
        let launches = launches.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let released = self.allocator.end_graph(self.device, &pools, launches, works);
        result.map_err(Error::from).and(released)
    }

    /// The pool that the memory of its work comes from, for others to share (`pool`).
    pub fn pool(&self) -> MempoolId {
        self.pool
    }

    /// The device that it was captured on.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// What was recorded, where that is kept (`raw_cuda_graph`).
    pub fn handle(&self) -> Option<GraphHandle> {
        self.captured.as_ref()?.recorded.as_ref().map(|(graph, _)| *graph)
    }

    /// What is launched, once it is instantiated (`raw_cuda_graph_exec`).
    pub fn exec_handle(&self) -> Option<GraphExecHandle> {
        self.captured.as_ref()?.exec
    }

    /// How many nodes were recorded; 0 once it is reset.
    pub fn node_count(&self) -> usize {
        self.captured.as_ref().map_or(0, |captured| captured.work.nodes)
    }

    /// Whether nothing was recorded: usually because the work went to another stream or device than the capture's.
    pub fn is_empty(&self) -> bool {
        self.node_count() == 0
    }

    /// How often it has been replayed.
    pub fn replays(&self) -> u64 {
        self.captured.as_ref().map_or(0, |captured| captured.replays.load(Ordering::Relaxed))
    }
}

impl Captured {
    /// The pools of which it has a use.
    fn pools(&self) -> Vec<MempoolId> {
        let mut pools = self.work.pools.clone();
        let recorded = self.recorded.iter().flat_map(|(_, work)| &work.pools);
        let more: Vec<_> = recorded.copied().filter(|pool| !pools.contains(pool)).collect();
        pools.extend(more);
        pools
    }

    /// Whether it does some work, or has recorded it.
    fn keeps(&self, work: &Arc<Work>) -> bool {
        let recorded = self.recorded.as_ref().is_some_and(|(_, recorded)| Arc::ptr_eq(recorded, work));
        recorded || Arc::ptr_eq(&self.work, work)
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if let Err(error) = self.reset()
            && let Some(met) = error.driver()
        {
            self.allocator.runtime().note::<()>(Err(*met));
        }
    }
}

impl fmt::Debug for CudaGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaGraph")
            .field("device", &self.device)
            .field("pool", &self.pool)
            .field("captured", &self.captured)
            .finish_non_exhaustive()
    }
}

#[cold]
fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

#[cold]
fn not_captured() -> Error {
    invalid("Called CUDAGraph::replay without a preceding successful capture: the graph was reset.")
}
