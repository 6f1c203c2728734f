//! Behaviour of `c10-cuda` at its edge.

mod rig;

mod alloc_basic;
mod alloc_raw;
mod sim_memory;
