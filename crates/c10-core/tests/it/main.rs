//! Behaviour of `c10-core` at its edge.
#![allow(clippy::unwrap_used, reason = "helpers of tests stop as tests do")]

mod bytes;
mod device;
mod names;
mod stat;
