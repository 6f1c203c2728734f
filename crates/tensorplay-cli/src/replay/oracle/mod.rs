//! Runs a trace and prints the lines that the oracle's `torch_replay` prints for it.
//!
//! Driver lines stand before the line of the command that caused them. A place is written as a segment, numbered
//! as they came from the driver, and an offset.

mod machine;
mod threads;
mod places;
mod entries;
mod answer;
mod blocks;
mod streams;
mod pools;
mod captures;
mod checkpoints;
mod snapshots;
mod queries;
mod statistics;

use std::sync::{Mutex, PoisonError};

use c10_cuda::{Config, Error};

use super::ops::{BadLine, Op};
use machine::Machine;

/// What the trace runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Each device's memory in bytes.
    pub(crate) device_memory: u64,
    pub(crate) devices: usize,
    /// Whether the allocator's own trace entries are printed too.
    pub(crate) with_entries: bool,
}

/// Why a run ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The trace is wrong at a line.
    BadTrace(BadLine),
    /// The allocator could not be made or a query failed.
    Allocator(Error),
}

/// Runs all commands, and gives all lines, the statistics last.
pub(crate) fn run(ops: &[Op<'_>], config: Config, setting: Setting) -> Result<String, Stop> {
    let machine = Mutex::new(Machine::new(config, setting)?);
    threads::run(&machine, ops)?;
    machine.into_inner().unwrap_or_else(PoisonError::into_inner).end()
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Allocator(error)
    }
}
