//! The functions against wider references, at their edges, and as vector code.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod accuracy;
mod complex;
mod edges;
mod integer;
mod special;
mod vector;
