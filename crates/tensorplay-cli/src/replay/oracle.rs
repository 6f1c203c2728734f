//! Runs a trace and prints the lines that the oracle's `torch_replay` prints for it.
//!
//! Driver lines stand before the line of the command that caused them. A place is written as a segment, numbered
//! as they came from the driver, and an offset.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use c10_core::stat::{Stat, StatArray};
use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::{TraceAction, TraceEntry};
use c10_cuda::driver::StreamHandle;
use c10_cuda::driver::sim::{Call, SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, ErrorKind, Runtime};

use super::entries;
use super::number::general;
use super::ops::{BadLine, Command, Op, STREAMS};
use crate::progress::Progress;

/// The stand-in's unit: it hands out and takes back whole 2 MiB.
const UNIT: u64 = 2 << 20;

/// Requests of so many bytes and more are refused unasked (`one_exa_bytes`).
const LARGEST_REQUEST: u64 = 1 << 60;

/// `C10_CUDA_CHECK`'s words for a `cudaMalloc` that found no memory, on one line as the oracle has them.
const DRIVER_OUT_OF_MEMORY: &str = "CUDA error: out of memory Search for `cudaErrorMemoryAllocation' in \
    https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information. ";

/// What PyTorch says of the base of memory in an expandable segment.
const NO_BASE_OF_EXPANDABLE: &str = "Tensors allocated with expandable_segments:True cannot be shared between \
    processes. Consider using expandable_segments:False in data loading workers via \
    torch.cuda.memory._set_allocator_settings('expandable_segments:False')";

/// Why a run ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The trace is wrong at a line.
    BadTrace(BadLine),
    /// The allocator could not be made or a query failed.
    Allocator(Error),
}

/// What a command is answered with.
enum Answer {
    /// A line.
    Line(String),
    /// The command with this behind it.
    Echo(String),
    /// The command names what is not there.
    Skip,
    /// The allocator refuses it, for this reason.
    Refused(String),
    /// All statistics.
    Statistics,
}

/// The state of a run.
struct Oracle {
    driver: Arc<SimDriver>,
    runtime: Runtime,
    allocator: CachingAllocator,
    /// The streams that the trace has named so far: the default one, then those of the pool in turn.
    streams: Vec<(Stream, StreamHandle)>,
    live: HashMap<i64, DataPtr>,
    segments: Segments,
    /// Whether the allocator's own trace entries are printed too.
    with_entries: bool,
    /// How many of the driver's calls that have lines were made.
    calls: u64,
    out: String,
}

/// Runs all commands on one device of `device_memory` bytes, and gives all lines, the statistics last;
/// `with_entries`, the allocator's own trace entries among them.
pub(crate) fn run(
    ops: &[Op<'_>],
    config: Config,
    device_memory: u64,
    with_entries: bool,
) -> Result<String, Stop> {
    // PyTorch's own behaviour, where ours is better too.
    let config = Config { search_after_synchronize: false, ..config };
    // The stand-in's rule: a free completes nothing.
    let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(device_memory) };
    let driver = SimDriver::new(machine.log_calls(usize::MAX));
    let runtime = Runtime::new(driver.clone());
    let allocator = CachingAllocator::with_runtime(runtime.clone(), config).map_err(Stop::Allocator)?;
    if with_entries {
        entries::record(&allocator, &driver);
    }
    let mut oracle = Oracle {
        driver,
        runtime,
        allocator,
        streams: Vec::with_capacity(STREAMS),
        live: HashMap::new(),
        segments: Segments::default(),
        with_entries,
        calls: 0,
        out: String::new(),
    };
    let progress = Progress::new("Replaying", ops.len());
    for op in ops {
        oracle.step(op)?;
        progress.step();
    }
    Ok(oracle.out + &stat_lines(&oracle.allocator.device_stats(0)?))
}

impl Oracle {
    fn step(&mut self, op: &Op<'_>) -> Result<(), Stop> {
        let answer = self.answer(op)?;
        self.print_driver_calls();
        let command = op.text.trim_matches([' ', '\t', '\r']);
        match answer {
            Answer::Line(line) => self.say(&line),
            Answer::Echo(answer) => self.say(&format!("{command}{answer}")),
            Answer::Skip => self.say(&format!("skip {command}")),
            Answer::Refused(why) => self.say(&format!("error {command}: {why}")),
            Answer::Statistics => self.out += &stat_lines(&self.allocator.device_stats(0)?),
        }
        Ok(())
    }

    fn answer(&mut self, op: &Op<'_>) -> Result<Answer, Stop> {
        let text = op.text;
        Ok(match op.command {
            Command::Allocate { id, bytes, stream } => self.allocate(op.line, id, bytes, stream)?,
            Command::Free { id } => match self.live.remove(&id) {
                Some(ptr) => {
                    drop(ptr);
                    Answer::Line(format!("free {id}"))
                }
                None => Answer::Line(format!("skip {text}")),
            },
            Command::RecordStream { id, stream } => {
                let (stream, _) = self.stream(stream)?;
                let rest = text.trim_start_matches([' ', 'r']);
                match self.live.get(&id) {
                    Some(ptr) => {
                        self.allocator.record_stream(ptr, stream)?;
                        Answer::Line(format!("record {rest}"))
                    }
                    None => Answer::Line(format!("skip {rest}")),
                }
            }
            Command::CompleteStream { stream } => {
                let (_, handle) = self.stream(stream)?;
                self.driver.complete_stream(handle);
                Answer::Line(format!("complete {stream}"))
            }
            Command::CompleteAll => {
                self.driver.complete_all();
                Answer::Line("complete all".into())
            }
            Command::EmptyCache => {
                self.allocator.empty_cache()?;
                Answer::Line("empty_cache".into())
            }
            Command::MemoryFraction { fraction } => self.set_fraction(fraction)?,
            Command::PrintStats => Answer::Statistics,
            Command::CacheInfo => Answer::Echo(format!(" {}", self.allocator.cache_info(0)?)),
            Command::Base { id } => self.base(id)?,
            Command::Fraction => Answer::Echo(format!(" {:.6}", self.allocator.memory_fraction(0)?)),
            Command::Enable { caching } => {
                self.allocator.enable(caching);
                Answer::Echo(String::new())
            }
            Command::ResetPeak => {
                self.allocator.reset_peak_stats(0)?;
                Answer::Echo(String::new())
            }
            Command::ResetAccumulated => {
                self.allocator.reset_accumulated_stats(0)?;
                Answer::Echo(String::new())
            }
        })
    }

    fn set_fraction(&mut self, fraction: f64) -> Result<Answer, Stop> {
        let text = general(fraction);
        match self.allocator.set_memory_fraction(fraction, 0) {
            Ok(()) => Ok(Answer::Line(format!("memory_fraction {text}"))),
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                Ok(Answer::Refused(format!("invalid fraction:{text}. Please set within [0, 1].")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn base(&self, id: i64) -> Result<Answer, Stop> {
        let Some(ptr) = self.live.get(&id) else { return Ok(Answer::Skip) };
        match self.allocator.base_allocation(ptr) {
            Ok((base, bytes)) => Ok(Answer::Echo(format!(" {} size {bytes}", self.segments.place(base.0)))),
            Err(error) if error.kind() == ErrorKind::NotImplemented => {
                Ok(Answer::Refused(NO_BASE_OF_EXPANDABLE.into()))
            }
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                let address = ptr.as_ptr().addr() as u64;
                let address = if ptr.is_null() { "0".into() } else { format!("{:#x}", stand_in(address)) };
                Ok(Answer::Refused(format!("invalid device pointer: {address}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn allocate(&mut self, line: usize, id: i64, bytes: u64, stream: usize) -> Result<Answer, Stop> {
        if self.live.contains_key(&id) {
            let reason = format!("the id {id} is live already");
            return Err(Stop::BadTrace(BadLine { line, reason }));
        }
        let (stream, _) = self.stream(stream)?;
        self.runtime.set_current_stream(stream)?;
        let before = self.allocator.memory_allocated(0)?;
        match self.allocator.allocate(bytes) {
            Ok(ptr) => {
                self.print_driver_calls();
                let block = self.allocator.memory_allocated(0)? - before;
                let place = self.segments.place(ptr.as_ptr().addr() as u64);
                self.live.insert(id, ptr);
                Ok(Answer::Line(format!("alloc {id} {bytes} block {block} at {place}")))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory && !self.asks_driver(bytes) => {
                Ok(Answer::Line(format!("oom {id} {bytes} {error}")))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                Ok(Answer::Refused(DRIVER_OUT_OF_MEMORY.into()))
            }
            Err(error) => match error.driver() {
                Some(refused) if refused.call == "reserve" => {
                    Ok(Answer::Refused(format!("CUDA driver error: {}", refused.status)))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Whether a request goes to the driver as it is: PyTorch then tells the driver's error, and not its own.
    fn asks_driver(&self, bytes: u64) -> bool {
        !self.allocator.is_enabled() && bytes < LARGEST_REQUEST
    }

    /// The stream of a number, made when it is first named.
    fn stream(&mut self, number: usize) -> Result<(Stream, StreamHandle), Stop> {
        while self.streams.len() <= number {
            let stream = match self.streams.len() {
                0 => Stream::default_of(c10_core::DeviceType::Cuda, 0),
                _ => self.runtime.stream_from_pool(0, 0)?,
            };
            self.streams.push((stream, self.runtime.handle(stream)?));
        }
        Ok(self.streams[number])
    }

    fn say(&mut self, line: &str) {
        self.out += line;
        self.out.push('\n');
    }

    /// The driver's calls since the last time, and the allocator's entries among them.
    fn print_driver_calls(&mut self) {
        let entries = if self.with_entries { entries::take(&self.allocator) } else { Vec::new() };
        let mut entries = entries.into_iter().peekable();
        for call in self.driver.take_calls() {
            if !entries::CALLS.contains(&call.name) {
                continue;
            }
            while let Some((_, entry)) = entries.next_if(|(calls, _)| *calls <= self.calls) {
                self.print_entry(&entry);
            }
            self.calls += 1;
            if let Some(line) = self.segments.driver_line(&call) {
                self.say(&line);
            }
        }
        entries.for_each(|(_, entry)| self.print_entry(&entry));
    }

    fn print_entry(&mut self, entry: &TraceEntry) {
        let TraceEntry { action, address, size, .. } = *entry;
        let place = match action {
            TraceAction::Oom => "-".into(),
            _ => self.segments.place(address),
        };
        self.say(&format!("trace {action} {size} {place}"));
    }
}

/// What the stand-in has for an address of the simulator: both hand out the same places, from 2^44 and from 2^52.
fn stand_in(address: u64) -> u64 {
    (1 << 44) + (address & ((1 << 52) - 1))
}

/// The ranges that the driver has handed out, and their numbers.
#[derive(Default)]
struct Segments {
    live: BTreeMap<u64, (usize, u64)>,
    count: usize,
}

impl Segments {
    /// The oracle's line for a driver call; `None` for calls that it does not print.
    fn driver_line(&mut self, call: &Call) -> Option<String> {
        let base = call.ptr.0;
        match (call.name, call.status) {
            ("malloc", None) => {
                self.live.insert(base, (self.count, call.bytes));
                self.count += 1;
                Some(format!("driver segment_alloc {} {}", call.bytes, self.place(base)))
            }
            ("malloc", Some(_)) => Some(format!("driver segment_alloc_failed {} -", call.bytes)),
            ("free", None) => {
                let place = self.place(base);
                let (_, bytes) = self.live.remove(&base)?;
                Some(format!("driver segment_free {} {place}", bytes.next_multiple_of(UNIT)))
            }
            ("reserve", None) => {
                self.live.insert(base, (self.count, call.bytes));
                self.count += 1;
                Some(format!("driver va_reserve {} {}", call.bytes, self.place(base)))
            }
            ("free_range", None) => {
                let place = self.place(base);
                self.live.remove(&base)?;
                Some(format!("driver va_free {} {place}", call.bytes))
            }
            ("create", None) => Some(format!("driver phys_alloc {} -", call.bytes)),
            ("create", Some(_)) => Some(format!("driver phys_alloc_failed {} -", call.bytes)),
            ("release", None) => Some(format!("driver phys_free {} -", call.bytes)),
            ("map" | "unmap", None) => {
                Some(format!("driver {} {} {}", call.name, call.bytes, self.place(base)))
            }
            _ => None,
        }
    }

    fn place(&self, address: u64) -> String {
        match self.live.range(..=address).next_back() {
            Some((base, (number, bytes))) if address - base < *bytes => {
                format!("seg{number}+{}", address - base)
            }
            _ => "-".into(),
        }
    }
}

fn stat_lines(stats: &DeviceStats) -> String {
    let mut text = String::new();
    for (name, array) in stats.arrays() {
        let StatArray { all, small, large } = array;
        for (pool, Stat { current, peak, allocated, freed }) in
            [("all", all), ("small", small), ("large", large)]
        {
            text += &format!(
                "stat {name}.{pool} current {current} peak {peak} allocated {allocated} freed {freed}\n"
            );
        }
    }
    for (name, count) in [
        ("num_alloc_retries", stats.num_alloc_retries),
        ("num_ooms", stats.num_ooms),
        ("num_sync_all_streams", stats.num_sync_all_streams),
        ("num_device_alloc", stats.num_device_alloc),
        ("num_device_free", stats.num_device_free),
        ("num_oom_rejections", stats.num_oom_rejections),
    ] {
        text += &format!("stat {name} {count}\n");
    }
    for (name, Stat { current, peak, .. }) in
        [("oversize_allocations", stats.oversize_allocations), ("oversize_segments", stats.oversize_segments)]
    {
        text += &format!("stat {name} current {current} peak {peak}\n");
    }
    text
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Allocator(error)
    }
}
