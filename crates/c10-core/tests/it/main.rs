//! Behaviour of `c10-core` at its edge.

mod data_ptr;
