//! Behaviour of `c10-core` at its edge.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod allocator;
mod data_ptr;
mod deferred;
#[cfg(feature = "mapped")]
mod mapped;
mod registry;
mod reporting;
