//! Families of traces: each is about some of the oracle's commands, or one part of the configuration.

use super::conf::{Conf, Switches};
use super::random::Random;

/// What a family's traces are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Family {
    /// Requests and frees under every setting, on few streams
    Basic,
    /// Up to six streams, with the uses that they record
    Streams,
    /// Growing segments
    Expandable,
    /// Private pools with scopes of every filter
    Pools,
    /// `torch.cuda.MemPool` and `use_mem_pool`
    Mempool,
    /// Captures with forks and joins
    Capture,
    /// The same, with reuse that the graph proves safe
    Reuse,
    /// Several devices
    Devices,
    /// Checkpoints of pools, and allocations at addresses
    Checkpoint,
    /// Snapshots, the history, queries, resets, caching off and on
    Snapshot,
    /// The backend `cudaMallocAsync`
    Async,
    /// All of the native allocator's together
    Mixed,
}

/// What a step of a trace does, beside allocating and freeing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    RecordStream,
    Complete,
    EmptyCache,
    Fraction,
    Statistics,
    /// `c`
    Current,
    /// `k`
    Kernel,
    /// `w`
    Wait,
    /// `d`
    Device,
    /// `pool_…`
    Pool,
    /// `mempool`, `use` and their ends
    Mempool,
    /// `capture_begin`, `capture_end`, and forks and joins between
    Capture,
    Checkpoint,
    /// `at`
    AllocateAt,
    Snapshot,
    History,
    /// `cache_info`, `base`, `fraction`
    Query,
    /// `reset_peak`, `reset_accumulated`
    Reset,
    Enable,
    /// A command that is refused, or names what is not there
    Wrong,
}

/// A family's part of what the seed decides.
#[derive(Debug)]
pub(crate) struct Habits {
    /// How often each comes, beside 100 for allocations and frees together.
    pub(crate) weights: Vec<(Action, u64)>,
    pub(crate) devices: u32,
    pub(crate) threads: u32,
    pub(crate) streams: u64,
}

impl Family {
    /// Draws what the configuration switches on and off.
    pub(crate) fn switches(self, random: &mut Random) -> Switches {
        let some = |chance, random: &mut Random| random.percent(chance);
        Switches {
            expandable: match self {
                Family::Expandable => true,
                Family::Basic | Family::Async => false,
                Family::Mixed => some(40, random),
                _ => some(15, random),
            },
            reuse: match self {
                Family::Reuse => true,
                Family::Mixed => some(30, random),
                _ => false,
            },
            release_lock: some(10, random),
            asynchronous: self == Family::Async,
        }
    }

    /// Draws a configuration of the family.
    pub(crate) fn conf(self, random: &mut Random) -> Conf {
        let switches = self.switches(random);
        let plain = match self {
            Family::Basic | Family::Streams | Family::Expandable => false,
            Family::Async => random.percent(70),
            _ => random.percent(50),
        };
        let drawn = if plain { Conf::default() } else { Conf::draw(random) };
        let captures = matches!(self, Family::Capture | Family::Reuse | Family::Mixed);
        let mut conf = Conf { switches, ..drawn };
        if switches.expandable {
            // They grow in steps of the driver's 2 MiB.
            conf.large_segment_mb = conf.large_segment_mb.map(|size| size.next_multiple_of(2));
            conf.max_split_mb = conf.max_split_mb.map(|size| size + 1);
            conf.max_non_split_rounding_mb = conf.max_non_split_rounding_mb.map(|size| size + 1);
        }
        if captures {
            // What these take back while a capture is under way spoils it (a defect of PyTorch's).
            conf.max_split_mb = None;
            conf.max_non_split_rounding_mb = None;
            conf.garbage_collection_threshold = None;
        }
        conf
    }

    /// Draws how its traces go.
    pub(crate) fn habits(self, random: &mut Random) -> Habits {
        use Action::*;
        let streams = match self {
            Family::Basic => random.one_of(&[1, 1, 2, 2, 3, 6]),
            Family::Streams | Family::Capture | Family::Reuse => random.between(2, 6),
            _ => random.one_of(&[1, 2, 3, 6]),
        };
        let records = if streams == 1 { 0 } else { random.one_of(&[0, 10, 30, 60]) };
        let completes = if records == 0 { 1 } else { random.one_of(&[0, 5, 20]) };
        let mut weights = vec![
            (RecordStream, records),
            (Complete, completes),
            (EmptyCache, random.one_of(&[0, 0, 1, 4])),
            (Fraction, random.one_of(&[0, 0, 0, 1, 3])),
            (Statistics, random.one_of(&[0, 1, 2])),
        ];
        let own: &[(Action, &[u64])] = match self {
            Family::Basic => &[],
            Family::Streams => &[(Current, &[0, 2]), (Kernel, &[0, 5, 20]), (Wait, &[0, 5, 20])],
            Family::Expandable => &[(Query, &[0, 1]), (Snapshot, &[0, 1])],
            Family::Pools => {
                &[(Pool, &[10, 30, 60]), (Snapshot, &[0, 1]), (Query, &[0, 1]), (Wrong, &[0, 0, 1])]
            }
            Family::Mempool => {
                &[(Mempool, &[10, 30, 60]), (Pool, &[0, 0, 10]), (Snapshot, &[0, 1]), (Wrong, &[0, 0, 1])]
            }
            Family::Capture | Family::Reuse => &[
                (Capture, &[10, 30, 80]),
                (Kernel, &[5, 20, 60]),
                (Wait, &[0, 2]),
                (Current, &[2, 10]),
                (Pool, &[0, 0, 5]),
                (Mempool, &[0, 0, 5]),
                (Snapshot, &[0, 1]),
                (Wrong, &[0, 0, 0, 1]),
            ],
            Family::Devices => &[
                (Device, &[5, 20, 60]),
                (Current, &[0, 5]),
                (Query, &[0, 2]),
                (Reset, &[0, 2]),
                (Snapshot, &[0, 1]),
                (Pool, &[0, 0, 10]),
                (Wait, &[0, 5]),
            ],
            Family::Checkpoint => {
                &[(Pool, &[5, 20]), (Checkpoint, &[5, 15]), (AllocateAt, &[0, 5, 20]), (Snapshot, &[0, 1])]
            }
            Family::Snapshot => &[
                (Snapshot, &[1, 4]),
                (History, &[0, 1, 4]),
                (Query, &[2, 10]),
                (Reset, &[0, 2, 10]),
                (Enable, &[0, 0, 3]),
                (AllocateAt, &[0, 5]),
                (Wrong, &[0, 1]),
            ],
            Family::Async => &[
                (Query, &[0, 2]),
                (Reset, &[0, 2]),
                (Device, &[0, 0, 5]),
                (Kernel, &[0, 5, 20]),
                (Wait, &[0, 5]),
                (Current, &[0, 5]),
                (Capture, &[0, 0, 10, 30]),
            ],
            Family::Mixed => &[
                (Pool, &[0, 5, 20]),
                (Mempool, &[0, 5, 20]),
                (Capture, &[0, 0, 10, 30]),
                (Kernel, &[0, 10]),
                (Wait, &[0, 5]),
                (Current, &[0, 5]),
                (Device, &[0, 5]),
                (Checkpoint, &[0, 0, 3]),
                (AllocateAt, &[0, 5]),
                (Snapshot, &[0, 1]),
                (History, &[0, 0, 1]),
                (Query, &[0, 2]),
                (Reset, &[0, 1]),
                (Enable, &[0, 0, 0, 1]),
                (Wrong, &[0, 0, 0, 1]),
            ],
        };
        weights.extend(own.iter().map(|(action, some)| (*action, random.one_of(some))));
        Habits { weights, devices: self.devices(random), threads: self.threads(random), streams }
    }

    fn devices(self, random: &mut Random) -> u32 {
        match self {
            Family::Devices => random.between(2, 4) as u32,
            Family::Async => random.one_of(&[1, 1, 1, 2]) as u32,
            Family::Mixed => random.one_of(&[1, 1, 2]) as u32,
            _ => 1,
        }
    }

    fn threads(self, random: &mut Random) -> u32 {
        match self {
            Family::Basic | Family::Expandable | Family::Checkpoint => 1,
            _ => random.one_of(&[1, 1, 1, 2, 3]) as u32,
        }
    }
}
