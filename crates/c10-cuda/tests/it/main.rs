//! Behaviour of `c10-cuda` at its edge.

mod summary;
