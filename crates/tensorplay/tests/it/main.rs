//! Tests of the crate at its edge.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod recorded;
mod training;
mod modules;
mod module_tree;
mod initial;
mod losses;
mod optimizers;
mod schedules;
mod data;
