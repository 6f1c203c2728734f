//! Behaviour of `c10-cuda` at its edge.

mod sim_memory;
mod summary;
