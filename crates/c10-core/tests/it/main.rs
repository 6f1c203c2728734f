//! Behaviour of `c10-core` at its edge.
#![allow(clippy::unwrap_used, reason = "helpers of tests stop as tests do")]

mod data_ptr;
mod bytes;
mod device;
mod float8;
mod names;
mod promote;
mod scalar;
mod scalar_type;
mod stat;
