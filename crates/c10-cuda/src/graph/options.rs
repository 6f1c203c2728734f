//! [`CaptureOptions`].

use crate::alloc::MempoolId;
use crate::driver::CaptureMode;
use crate::generator::CudaGenerator;

/// What a capture is like.
#[derive(Clone, Debug, Default)]
pub struct CaptureOptions {
    /// The pool that its memory comes from, such as another graph's [`pool`](super::CudaGraph::pool); `None` is one of
    /// its own. Graphs that share a pool are to be replayed in the order in which they were captured, and not at the
    /// same time: what one has freed the next uses.
    pub pool: Option<MempoolId>,
    /// Which threads it keeps from calls that could disturb it (`capture_error_mode`).
    pub mode: CaptureMode,
    /// Whether what was recorded is kept beside what is launched (`keep_graph`). Then
    /// [`instantiate`](super::CudaGraph::instantiate) is the program's to call, and the graph can be
    /// [updated from](super::CudaGraph::update).
    pub keep_graph: bool,
    /// Generators of the device that the work draws from, beside the device's
    /// [default](crate::Runtime::default_generator) one, which always is.
    pub generators: Vec<CudaGenerator>,
}

impl CaptureOptions {
    /// The default, with memory from a pool.
    pub fn in_pool(pool: MempoolId) -> Self {
        Self { pool: Some(pool), ..Self::default() }
    }
}
