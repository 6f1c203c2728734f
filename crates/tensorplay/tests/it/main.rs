//! Tests of the crate at its edge.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod recorded;
mod training;
mod modules;
mod module_tree;
mod initial;
mod losses;
mod optimizers;
mod schedules;
mod data;
