//! [`Command`]: what a line says.

use std::fmt;

use c10_core::DeviceIndex;

use super::words::Words;

/// A stream by number, 0 the default one; of the current device where none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamName {
    pub(crate) device: Option<DeviceIndex>,
    pub(crate) number: usize,
}

/// The two numbers of a private pool's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolName {
    pub(crate) first: u64,
    pub(crate) second: u64,
}

/// What a scope sends to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeFilter {
    All,
    /// What the thread that opens it asks for.
    Thread,
    Stream(StreamName),
}

/// Which calls a capture forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureMode {
    Global,
    ThreadLocal,
    Relaxed,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command<'a> {
    /// `a ID SIZE STREAM`
    Allocate { id: i64, bytes: u64, stream: StreamName },
    /// `f ID`
    Free { id: i64 },
    /// `r ID STREAM`
    RecordStream { id: i64, stream: StreamName },
    /// `s STREAM`
    CompleteStream { stream: StreamName },
    /// `S`
    CompleteAll,
    /// `e`
    EmptyCache,
    /// `m FRACTION`
    MemoryFraction { fraction: f64 },
    /// `p`
    PrintStats,
    /// `d N`
    SetDevice { device: DeviceIndex },
    /// `c STREAM`
    SetStream { stream: StreamName },
    /// `k STREAM`
    Kernel { stream: StreamName },
    /// `w A B`
    Wait { waiting: StreamName, waited: StreamName },
    /// `pool_create P`
    PoolCreate { pool: PoolName },
    /// `pool_begin P all|thread|STREAM`
    PoolBegin { pool: PoolName, filter: ScopeFilter },
    /// `pool_end P`
    PoolEnd { pool: PoolName },
    /// `pool_release P`
    PoolRelease { pool: PoolName },
    /// `pool_use_on_oom P 0|1`
    PoolUseOnOom { pool: PoolName, on: bool },
    /// `pool_no_split P`
    PoolNoSplit { pool: PoolName },
    /// `pool_empty P`
    PoolEmpty { pool: PoolName },
    /// `pool_count P`
    PoolCount { pool: PoolName },
    /// `pool_live P ID...`
    PoolLive { pool: PoolName, ids: Vec<i64> },
    /// `mempool P [own] [use_on_oom] [no_split]`
    MemPool { pool: PoolName, own: bool, use_on_oom: bool, no_split: bool },
    /// `mempool_del P`
    MemPoolDelete { pool: PoolName },
    /// `use P`
    Use { pool: PoolName },
    /// `unuse P`
    Unuse { pool: PoolName },
    /// `capture_begin STREAM P [MODE]`
    CaptureBegin { stream: StreamName, pool: PoolName, mode: CaptureMode },
    /// `capture_end STREAM`
    CaptureEnd { stream: StreamName },
    /// `snapshot [P]`
    Snapshot { pool: Option<PoolName> },
    /// `history ENTRIES [ACTION...]`
    History { entries: usize, skip: Vec<&'a str> },
    /// `cache_info`
    CacheInfo,
    /// `base ID`
    Base { id: i64 },
    /// `fraction`
    Fraction,
    /// `reset_peak`
    ResetPeak,
    /// `reset_accumulated`
    ResetAccumulated,
    /// `checkpoint NAME P`
    Checkpoint { name: &'a str, pool: PoolName },
    /// `restore NAME ID`
    Restore { name: &'a str, first: i64 },
    /// `at ID SIZE STREAM LIVE_ID OFFSET`
    AllocateAt { id: i64, bytes: u64, stream: StreamName, live: i64, offset: i64 },
    /// `enable 0|1`
    Enable { caching: bool },
}

impl<'a> Command<'a> {
    pub(super) fn read(words: &mut Words<'a>) -> Result<Self, String> {
        Ok(match words.name() {
            "a" => {
                Command::Allocate { id: words.integer("ID")?, bytes: words.bytes()?, stream: words.stream()? }
            }
            "f" => Command::Free { id: words.integer("ID")? },
            "r" => Command::RecordStream { id: words.integer("ID")?, stream: words.stream()? },
            "s" => Command::CompleteStream { stream: words.stream()? },
            "S" => Command::CompleteAll,
            "e" => Command::EmptyCache,
            "m" => Command::MemoryFraction { fraction: words.fraction()? },
            "p" => Command::PrintStats,
            "d" => Command::SetDevice { device: words.device()? },
            "c" => Command::SetStream { stream: words.stream()? },
            "k" => Command::Kernel { stream: words.stream()? },
            "w" => Command::Wait { waiting: words.stream()?, waited: words.stream()? },
            "cache_info" => Command::CacheInfo,
            "base" => Command::Base { id: words.integer("ID")? },
            "fraction" => Command::Fraction,
            "reset_peak" => Command::ResetPeak,
            "reset_accumulated" => Command::ResetAccumulated,
            "enable" => Command::Enable { caching: words.flag()? },
            "at" => Command::AllocateAt {
                id: words.integer("ID")?,
                bytes: words.bytes()?,
                stream: words.stream()?,
                live: words.integer("LIVE_ID")?,
                offset: words.integer("OFFSET")?,
            },
            "history" => Command::History { entries: words.integer("ENTRIES")?, skip: words.all() },
            _ => Self::read_of_pools(words)?,
        })
    }

    fn read_of_pools(words: &mut Words<'a>) -> Result<Self, String> {
        Ok(match words.name() {
            "pool_create" => Command::PoolCreate { pool: words.pool()? },
            "pool_begin" => Command::PoolBegin { pool: words.pool()?, filter: words.filter()? },
            "pool_end" => Command::PoolEnd { pool: words.pool()? },
            "pool_release" => Command::PoolRelease { pool: words.pool()? },
            "pool_use_on_oom" => Command::PoolUseOnOom { pool: words.pool()?, on: words.flag()? },
            "pool_no_split" => Command::PoolNoSplit { pool: words.pool()? },
            "pool_empty" => Command::PoolEmpty { pool: words.pool()? },
            "pool_count" => Command::PoolCount { pool: words.pool()? },
            "pool_live" => {
                let pool = words.pool()?;
                let id =
                    |word: &str| word.parse().map_err(|_| format!("the ID {word:?} is not a whole number"));
                let ids = words.all().into_iter().map(id).collect::<Result<_, _>>()?;
                Command::PoolLive { pool, ids }
            }
            "mempool" => {
                let pool = words.pool()?;
                let with = words.all();
                let has = |word| with.contains(&word);
                let (own, use_on_oom, no_split) = (has("own"), has("use_on_oom"), has("no_split"));
                Command::MemPool { pool, own, use_on_oom, no_split }
            }
            "mempool_del" => Command::MemPoolDelete { pool: words.pool()? },
            "use" => Command::Use { pool: words.pool()? },
            "unuse" => Command::Unuse { pool: words.pool()? },
            "capture_begin" => {
                let (stream, pool) = (words.stream()?, words.pool()?);
                if stream.number == 0 {
                    return Err("the default stream cannot be captured".into());
                }
                Command::CaptureBegin { stream, pool, mode: words.mode()? }
            }
            "capture_end" => Command::CaptureEnd { stream: words.stream()? },
            "snapshot" => Command::Snapshot { pool: words.pool_if_any()? },
            "checkpoint" => Command::Checkpoint { name: words.next("NAME")?, pool: words.pool()? },
            "restore" => Command::Restore { name: words.next("NAME")?, first: words.integer("ID")? },
            name => return Err(format!("{name:?} is no command")),
        })
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first != 0 {
            write!(f, "{}.", self.first)?;
        }
        write!(f, "{}", self.second)
    }
}
