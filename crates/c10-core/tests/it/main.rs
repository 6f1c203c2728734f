//! Behaviour of `c10-core` at its edge.

mod allocator;
mod data_ptr;
mod deferred;
mod registry;
