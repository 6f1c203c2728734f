//! C functions over TensorPlay's CUDA caching allocator, for programs that are not Rust. The header is
//! `include/tensorplay_cuda.h`.
//!
//! PyTorch loads the shared object as a pluggable allocator:
//!
//! ```python
//! allocator = torch.cuda.memory.CUDAPluggableAllocator(
//!     "libtensorplay_cuda.so", "tensorplay_cuda_alloc", "tensorplay_cuda_free")
//! torch.cuda.memory.change_current_allocator(allocator)
//! ```
//!
//! The object is a world of its own: one allocator, made by the first call that needs it or by
//! `tensorplay_cuda_init`. It shares no registry with another TensorPlay in the process. Its driver is the simulated
//! one, or with `TENSORPLAY_CUDA_DRIVER=cuda` the machine's, where it was built with the feature `cuda`.
//!
//! No call unwinds into its caller. One that fails returns null or a code, and keeps its text for
//! `tensorplay_cuda_last_error` on the same thread.

mod control;
mod environment;
mod failure;
mod history;
mod memory;
mod pools;
mod sim;
mod world;

pub use control::{
    TensorplayCudaStats, tensorplay_cuda_empty_cache, tensorplay_cuda_init, tensorplay_cuda_init_devices,
    tensorplay_cuda_last_error, tensorplay_cuda_memory_fraction, tensorplay_cuda_stats,
};
pub use history::{tensorplay_cuda_record_history, tensorplay_cuda_snapshot};
pub use memory::{
    tensorplay_cuda_alloc, tensorplay_cuda_base_alloc, tensorplay_cuda_forget_stream, tensorplay_cuda_free,
    tensorplay_cuda_record_stream,
};
pub use pools::{
    MempoolIdArgument, tensorplay_cuda_begin_allocate_to_pool, tensorplay_cuda_end_allocate_to_pool,
    tensorplay_cuda_release_pool,
};
pub use sim::{tensorplay_cuda_sim_complete_all, tensorplay_cuda_sim_new_stream};
