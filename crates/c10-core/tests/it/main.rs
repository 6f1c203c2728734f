//! Behaviour of `c10-core` at its edge.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod access;
mod allocator;
mod bytes;
mod complex;
mod copy_async;
mod cow;
mod data_ptr;
mod deferred;
mod device;
mod dump;
mod fake_device;
mod float8;
mod guard;
mod hooks;
mod kept;
mod made_in;
#[cfg(feature = "mapped")]
mod mapped;
mod names;
mod pending;
mod promote;
mod registry;
mod reporting;
mod scalar;
mod scalar_type;
mod stat;
mod storage;
