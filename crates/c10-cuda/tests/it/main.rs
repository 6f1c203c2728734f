//! Behaviour of `c10-cuda` at its edge.

mod model;
mod program;
mod rig;

mod alloc_basic;
mod alloc_config;
mod alloc_model;
mod alloc_oom;
mod alloc_raw;
mod alloc_snapshot;
mod runtime;
mod sim_memory;
