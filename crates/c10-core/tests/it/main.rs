//! Behaviour of `c10-core` at its edge.
#![allow(clippy::unwrap_used, reason = "helpers of tests stop as tests do")]

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod allocator;
mod data_ptr;
mod bytes;
mod device;
mod float8;
mod names;
mod promote;
mod scalar;
mod scalar_type;
mod stat;
mod deferred;
#[cfg(feature = "mapped")]
mod mapped;
mod registry;
mod reporting;
