//! [`Trial`]: one configuration on one device's history, and all of them on all processors.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use c10_cuda::{Config, Placement};
use serde::Serialize;

use super::grid::{Candidate, Whose};
use crate::progress::{Bar, Progress};
use crate::replay::{Failure, Mode, OutOfMemory, Peaks, Replayed, Terms, plan_of};
use crate::snapshot::{InitialState, Snapshot};

/// How long a plan is searched for: some seconds. It is steps, so that equal files give equal advice.
const PLAN_STEPS: u64 = 50_000_000;

/// What a configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Trial {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`; empty for PyTorch's defaults.
    pub(super) configuration: String,
    pub(super) whose: Whose,
    /// Up to where it ran.
    pub(super) peaks: Peaks,
    /// What was reserved at its peak beyond what the program held at its own, as a part of it; none where memory ran
    /// out.
    pub(super) waste: Option<f64>,
    /// Allocations and mappings, frees and unmappings that the driver was asked for.
    pub(super) driver_calls: u64,
    /// The first request that was refused.
    pub(super) out_of_memory: Option<OutOfMemory>,
}

impl Trial {
    /// Whether the whole history was served.
    pub(super) fn fits(&self) -> bool {
        self.out_of_memory.is_none()
    }

    /// By how much it is served: all, the less reserved the better; else the later it ends the better.
    pub(super) fn rank(&self) -> (bool, Option<Reverse<usize>>, u64, u64) {
        let ends = self.out_of_memory.as_ref().map(|refused| refused.event.map_or(0, |event| event + 1));
        (!self.fits(), ends.map(Reverse), self.peaks.reserved_bytes, self.driver_calls)
    }
}

/// The histories of a file, and how much memory there is.
pub(super) struct Trials<'a> {
    pub(super) file: &'a Path,
    pub(super) snapshot: &'a Snapshot,
    pub(super) memory: Option<u64>,
}

impl Trials<'_> {
    /// Tries every candidate on every device's history, and gives the trials by device, in the candidates' order.
    pub(super) fn run(
        &self,
        devices: &[(InitialState, u64)],
        candidates: &[Candidate],
    ) -> Result<Vec<Vec<Trial>>, Failure> {
        let jobs = devices.len() * candidates.len();
        let events = |(initial, _): &(InitialState, u64)| self.snapshot.trace(initial.device).len();
        let steps: usize = devices.iter().map(events).sum();
        // For a plan the history is gone through once more.
        let rounds = candidates.len() + candidates.iter().filter(|candidate| candidate.is_planned).count();
        let progress = Progress::new("Replaying", steps * rounds);
        let bar = progress.share();
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<Trial, Failure>>>> =
            Mutex::new((0..jobs).map(|_| None).collect());
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= jobs {
                    return;
                }
                let (initial, live) = &devices[job / candidates.len()];
                let result = self.one(initial, *live, &candidates[job % candidates.len()], &bar);
                results.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[job] = Some(result);
            }
        };
        let workers = thread::available_parallelism().map_or(1, usize::from).min(jobs);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(work);
            }
        });
        let results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let trials = results.into_iter().map(|result| result.expect("each job is done"));
        let trials = trials.collect::<Result<Vec<_>, _>>()?;
        Ok(trials.chunks(candidates.len()).map(<[Trial]>::to_vec).collect())
    }

    fn one(
        &self,
        initial: &InitialState,
        live: u64,
        candidate: &Candidate,
        bar: &Bar,
    ) -> Result<Trial, Failure> {
        let failure = |error| Failure::replay(self.file, initial.device, error);
        let mut config = match candidate.whose {
            // What PyTorch would do is asked.
            Whose::Pytorch => Config { search_after_synchronize: false, ..candidate.config.clone() },
            Whose::Ours => candidate.config.clone(),
        };
        if candidate.is_planned {
            let plan = plan_of(self.snapshot, initial, PLAN_STEPS, bar).map_err(failure)?;
            config.placement = Placement::Planned(Arc::new(plan));
        }
        let terms =
            Terms { config, memory: self.memory, mode: Mode::WhatIf, notes: Vec::new(), records: false };
        let replayed = terms.replay(self.snapshot, initial, bar);
        let Replayed { replay, stats, .. } = replayed.map_err(failure)?;
        let reserved = replay.peaks.reserved_bytes;
        let waste = match &replay.out_of_memory {
            None if reserved > 0 => Some(reserved.saturating_sub(live) as f64 / reserved as f64),
            None => Some(0.0),
            Some(_) => None,
        };
        Ok(Trial {
            configuration: candidate.text.clone(),
            whose: candidate.whose,
            peaks: replay.peaks,
            waste,
            driver_calls: stats.num_device_alloc.max(0) as u64 + stats.num_device_free.max(0) as u64,
            out_of_memory: replay.out_of_memory,
        })
    }
}
