//! A [`Snapshot`] as files that PyTorch's tools open: the pickle of `torch.cuda.memory._dump_snapshot`, which
//! <https://docs.pytorch.org/memory_viz> and `torch/cuda/_memory_viz.py` read, and a trace for Chrome and Perfetto.
//!
//! [`Snapshot`]: super::Snapshot

mod pickle;
mod memory_viz;
mod chrome_trace;
