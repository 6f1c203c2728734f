//! [`Terms`]: under which configuration, with how much memory, and to what end a history is replayed.

use std::cmp::Ordering;
use std::panic::resume_unwind;
use std::thread;

use c10_core::DeviceIndex;
use c10_core::stat::StatArray;
use c10_cuda::alloc::{self, memory_summary};
use c10_cuda::{Config, DeviceStats, Error, OrderOfEquals, Placement, Reserve};

use super::chart::Timeline;
use super::comparison::{Compared, compare};
use super::given;
use super::growable::{Growable, MOST_ADDRESSES};
use super::history::History;
use super::lane::Lanes;
use super::player::Stage;
use super::report::{self, Comparison, Mode, Peaks, PlanUse, Replay};
use super::settings::{for_comparison, recorded_config};
use super::what_if::{Tried, what_if};
use crate::progress::{Bar, Progress};
use crate::snapshot::{Action, AllocatorSettings, InitialState, Snapshot};

/// The unit of physical memory.
const PAGE: u64 = 2 << 20;

/// What is run on each device.
pub(crate) struct Terms {
    pub(crate) config: Config,
    /// In bytes; unlimited unless given.
    pub(crate) memory: Option<u64>,
    pub(crate) mode: Mode,
    /// What is to be known about the configuration.
    pub(crate) notes: Vec<String>,
    /// Whether the allocator's own history is wanted.
    pub(crate) records: bool,
}

/// What running a history again gave.
pub(crate) struct Replayed {
    /// For the report.
    pub(crate) replay: Replay,
    /// At the end.
    pub(crate) stats: DeviceStats,
    /// The allocator's own history, if it was wanted.
    pub(crate) recorded: Option<alloc::Snapshot>,
}

impl Terms {
    /// The terms for a snapshot: the configuration that is given, else the recording's.
    pub(crate) fn new(snapshot: &Snapshot, given: Option<Config>, memory: Option<u64>, mode: Mode) -> Self {
        let recorded = recorded_config(snapshot);
        let notes = if given.is_none() { recorded.notes } else { Vec::new() };
        let config = match mode {
            Mode::Comparison => for_comparison(&recorded.config),
            // What PyTorch would do is asked.
            Mode::WhatIf => Config { search_after_synchronize: false, ..given.unwrap_or(recorded.config) },
        };
        Self { config, memory, mode, notes, records: false }
    }

    /// Replays one device's history.
    ///
    /// # Errors
    /// What the allocator refuses other than for want of memory.
    pub(crate) fn replay(
        &self,
        snapshot: &Snapshot,
        initial: &InitialState,
        bar: &Bar,
    ) -> Result<Replayed, Error> {
        let lanes = Lanes::new(snapshot, initial);
        let growable = Growable::new(snapshot, initial, &lanes);
        let default = AllocatorSettings::default();
        let settings = snapshot.allocator_settings.as_ref().unwrap_or(&default);
        let trace = snapshot.trace(initial.device);
        let history = History { trace, initial, lanes: &lanes, growable: &growable, settings };
        match self.mode {
            Mode::Comparison => self.compare(&history, snapshot),
            Mode::WhatIf => self.what_if(&history, snapshot, bar),
        }
    }

    fn stage<'a>(
        &self,
        history: &History<'a>,
        snapshot: &'a Snapshot,
        order_of_equals: OrderOfEquals,
    ) -> Stage<'a> {
        Stage {
            config: Config {
                order_of_equals,
                expandable_segments_reserve: self.reserve(history),
                ..self.config.clone()
            },
            device: history.initial.device as DeviceIndex,
            memory: self.memory.unwrap_or(given::LARGEST_DEVICE),
            lanes: &history.lanes.all,
            keeps_changes: self.mode == Mode::Comparison,
            records: self.records.then_some(&snapshot.stacks),
        }
    }

    /// How many addresses an expandable segment takes. On a device without a limit that is no part of its memory.
    fn reserve(&self, history: &History<'_>) -> Option<Reserve> {
        if self.memory.is_some() && self.mode == Mode::WhatIf {
            return self.config.expandable_segments_reserve;
        }
        let addresses = match self.mode {
            Mode::Comparison => history.growable.addresses(),
            Mode::WhatIf => MOST_ADDRESSES,
        };
        self.config.expandable_segments_reserve.or(Some(Reserve::Bytes(addresses)))
    }

    /// Replays in both orders of equals at a time, and takes the one that agrees with the recording on the most.
    fn compare(&self, history: &History<'_>, snapshot: &Snapshot) -> Result<Replayed, Error> {
        let progress = Progress::new("Replaying", 2 * history.trace.len());
        let bar = progress.share();
        let compare = |order| {
            let stage = self.stage(history, snapshot, order);
            compare(history, &stage, &bar.of("Replaying", history.trace.len()))
        };
        let (address, registration) = thread::scope(|scope| {
            let address = scope.spawn(|| compare(OrderOfEquals::Address));
            let registration = compare(OrderOfEquals::Registration);
            (address.join().unwrap_or_else(|panic| resume_unwind(panic)), registration)
        });
        let (address, registration) = (address?, registration?);
        let (order, best) = match address.agreement().cmp(&registration.agreement()) {
            Ordering::Equal => (report::OrderOfEquals::Either, address),
            Ordering::Greater => (report::OrderOfEquals::Address, address),
            Ordering::Less => (report::OrderOfEquals::Registration, registration),
        };
        let Compared { placements, segments, first_difference, stats, timeline, recorded } = best;
        let comparison = Comparison { placements, segments, first_difference };
        let replay = self.report(history, order, &stats, timeline);
        let replay = Replay { comparison: Some(comparison), ..replay };
        Ok(Replayed { replay, stats, recorded })
    }

    fn what_if(&self, history: &History<'_>, snapshot: &Snapshot, bar: &Bar) -> Result<Replayed, Error> {
        let progress = bar.of("Replaying", history.trace.len());
        let stage = self.stage(history, snapshot, OrderOfEquals::Registration);
        let tried = what_if(history, &stage, &progress)?;
        let order = report::OrderOfEquals::Registration;
        let plan = self.plan_use(history, &tried);
        let replay = self.report(history, order, &tried.stats, tried.timeline);
        let driver_calls = Some(tried.memory_calls);
        let replay = Replay { out_of_memory: tried.out_of_memory, driver_calls, plan, ..replay };
        Ok(Replayed { replay, stats: tried.stats, recorded: tried.recorded })
    }

    fn plan_use(&self, history: &History<'_>, tried: &Tried) -> Option<PlanUse> {
        let (stats, recording) = tried.plan.as_ref()?;
        let Placement::Planned(plan) = &self.config.placement else { return None };
        let peak_live_bytes = peak_live(history);
        let peak_reserved_bytes = (tried.stats.reserved_bytes.all.peak as u64).next_multiple_of(PAGE);
        let unused = peak_reserved_bytes.saturating_sub(peak_live_bytes);
        Some(PlanUse {
            peak_live_bytes,
            peak_reserved_bytes,
            waste: if unused == 0 { 0.0 } else { unused as f64 / peak_reserved_bytes as f64 },
            height_bytes: plan.height(),
            is_of_this_history: plan.source() == recording.fingerprint(),
            planned: stats.planned,
            elsewhere: stats.elsewhere,
            outside: stats.outside,
            resynchronised: stats.resynchronised,
            laps: stats.laps,
        })
    }

    /// What is reported in either mode.
    fn report(
        &self,
        history: &History<'_>,
        order_of_equals: report::OrderOfEquals,
        stats: &DeviceStats,
        timeline: Timeline,
    ) -> Replay {
        let peak = |stat: &StatArray| stat.all.peak as u64;
        Replay {
            configuration: self.config.to_string(),
            device_memory_bytes: self.memory,
            order_of_equals,
            peaks: Peaks {
                requested_bytes: peak(&stats.requested_bytes),
                allocated_bytes: peak(&stats.allocated_bytes),
                active_bytes: peak(&stats.active_bytes),
                reserved_bytes: peak(&stats.reserved_bytes),
            },
            driver_calls: None,
            comparison: None,
            out_of_memory: None,
            plan: None,
            timeline,
            notes: self.notes_on(history),
            memory_summary: memory_summary(stats, history.initial.device as DeviceIndex, false),
        }
    }

    fn notes_on(&self, history: &History<'_>) -> Vec<String> {
        let mut notes = self.notes.clone();
        if history.lanes.all.iter().any(|lane| lane.is_private()) {
            notes.push(
                "The recording has private pools, of graphs or of `MemPool`. Each is replayed as a stream of its \
                 own; what it does is not compared."
                    .into(),
            );
        }
        if self.mode == Mode::WhatIf && !history.initial.starts_empty {
            notes.push(
                "What was live when recording began is allocated first, from an empty device: what had become \
                 fragmented until then is not."
                    .into(),
            );
        }
        notes
    }
}

/// The most that is live at once, each request in a multiple of 512 bytes.
fn peak_live(history: &History<'_>) -> u64 {
    let block = |bytes: u64| bytes.next_multiple_of(512);
    let mut live: u64 = history.initial.live().map(|live| block(live.requested_size)).sum();
    let mut peak = live;
    for event in history.trace {
        match event.action {
            Action::Alloc => live += block(event.size),
            Action::FreeCompleted => live = live.saturating_sub(block(event.size)),
            _ => {}
        }
        peak = peak.max(live);
    }
    peak
}
