//! Graphs: work that is recorded once and replayed as a whole (`torch.cuda.CUDAGraph`).
//!
//! - [`CudaGraph`]: a capture that can be replayed, and [`CudaGraph::capture`], which makes one.
//! - [`GraphCapture`]: the capture, while it is under way.
//! - [`CaptureOptions`]: where its memory comes from, whom it keeps from what, the random state that it uses.
//!
//! What is allocated in a capture for its streams comes from a private pool, so that nobody else gets memory which the
//! graph will use. The pool is in use while the graph is there; when both the graph and the work of its launches are
//! gone, its memory can go back.

mod capture;
mod cuda_graph;
mod launches;
mod options;
mod randomness;
mod seeds;

pub use capture::GraphCapture;
pub use cuda_graph::CudaGraph;
pub(crate) use cuda_graph::Work;
pub(crate) use launches::Launches;
pub use options::CaptureOptions;
pub(crate) use seeds::{SeedMemory, SeedStore};
