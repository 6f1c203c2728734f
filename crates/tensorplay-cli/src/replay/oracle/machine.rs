//! [`Machine`]: the state of a run, and how a command's lines come out.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use c10_core::{DataPtr, DeviceIndex, DeviceType, Stream};
use c10_cuda::alloc::{MempoolId, PoolCheckpoint, TraceAction, TraceEntry};
use c10_cuda::driver::StreamHandle;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{Backend, CachingAllocator, Config, Runtime};

use super::answer::Answer;
use super::entries::{self, Kept};
use super::places::{Places, in_pool, on_device};
use super::pools::{OwnCall, OwnCallKind, OwnCalls};
use super::{Setting, Stop, statistics};
use crate::replay::ops::{BadLine, Op, StreamName};

/// Threads run one at a time, under one lock.
pub(super) struct Machine {
    pub(super) driver: Arc<SimDriver>,
    pub(super) runtime: Runtime,
    pub(super) allocator: CachingAllocator,
    /// The streams of each device that the trace has named so far: the default one, then those of the pool in turn.
    pub(super) streams: Vec<Vec<(Stream, StreamHandle)>>,
    pub(super) live: HashMap<i64, DataPtr>,
    pub(super) places: Places,
    /// The pools of captures under way, by the stream that each began on.
    pub(super) captures: HashMap<StreamHandle, MempoolId>,
    pub(super) checkpoints: HashMap<String, PoolCheckpoint>,
    /// The calls of pools' own allocators since they were last printed.
    pub(super) own_calls: OwnCalls,
    /// The devices that were current.
    pub(super) devices_used: BTreeSet<DeviceIndex>,
    /// The devices whose memory fraction was set.
    pub(super) capped: BTreeSet<DeviceIndex>,
    /// Whether `history` is on.
    pub(super) has_history: bool,
    /// What it keeps, where all entries are recorded for their lines.
    pub(super) kept: Option<Kept>,
    /// Whether the allocator's own trace entries are printed too.
    pub(super) with_entries: bool,
    /// How many of the driver's calls that have lines were made.
    calls: u64,
    out: String,
}

impl Machine {
    pub(super) fn new(config: Config, setting: Setting) -> Result<Self, Stop> {
        // PyTorch's own behaviour, where ours is better too.
        let mut config = Config { search_after_synchronize: false, ..config };
        if config.backend == Backend::CudaMallocAsync {
            config.per_process_memory_fraction = 1.0;
        }
        let Setting { device_memory, devices, with_entries } = setting;
        // The stand-in's rule: a free completes nothing.
        let machine = SimConfig { free_waits: false, ..SimConfig::with_devices(devices, device_memory) };
        let driver = SimDriver::new(machine.log_calls(usize::MAX));
        let runtime = Runtime::new(driver.clone());
        let allocator = CachingAllocator::with_runtime(runtime.clone(), config)?;
        let default = |device| {
            let stream = Stream::default_of(DeviceType::Cuda, device);
            Ok(vec![(stream, runtime.handle(stream)?)])
        };
        let streams = (0..runtime.device_count()).map(default).collect::<Result<_, Stop>>()?;
        let machine = Machine {
            driver,
            runtime,
            allocator,
            streams,
            live: HashMap::new(),
            places: Places::default(),
            captures: HashMap::new(),
            checkpoints: HashMap::new(),
            own_calls: OwnCalls::default(),
            devices_used: BTreeSet::from([0]),
            capped: BTreeSet::new(),
            has_history: false,
            kept: None,
            with_entries,
            calls: 0,
            out: String::new(),
        };
        machine.begin_thread();
        if with_entries {
            entries::record(&machine.allocator);
        }
        Ok(machine)
    }

    /// Whether the driver's memory pools are the allocator.
    pub(super) fn is_async(&self) -> bool {
        self.allocator.config().backend == Backend::CudaMallocAsync
    }

    /// What a thread of the trace does before its first command.
    pub(super) fn begin_thread(&self) {
        entries::count_calls_of(&self.driver);
    }

    /// Runs a command of the calling thread's.
    pub(super) fn step(&mut self, op: &Op<'_>) -> Result<(), Stop> {
        let answer = match self.answer(op) {
            // As the oracle it goes on after what the allocator refuses.
            Err(Stop::Allocator(error)) => Answer::Refused(match error.driver() {
                Some(refused) => format!("CUDA error: {}", refused.status),
                None => error.to_string(),
            }),
            answer => answer?,
        };
        self.print_driver_calls();
        let (told, whole) = (op.told.trim_matches(BLANKS), op.text.trim_matches(BLANKS));
        match answer {
            Answer::Line(line) => self.say(&line),
            Answer::Echo(answer) => self.say(&format!("{told}{answer}")),
            Answer::Skip => self.say(&format!("skip {whole}")),
            Answer::Refused(why) => self.say(&format!("error {whole}: {why}")),
            Answer::Statistics => {
                let device = self.runtime.current_device();
                self.out += &statistics::lines(&self.allocator, device)?;
            }
        }
        Ok(())
    }

    /// All lines, with the statistics of the devices that were current behind them.
    pub(super) fn end(mut self) -> Result<String, Stop> {
        for device in &self.devices_used {
            if self.devices_used.len() > 1 {
                self.out += &format!("device {device}\n");
            }
            self.out += &statistics::lines(&self.allocator, *device)?;
        }
        Ok(self.out)
    }

    /// The stream of a name, made when it is first named.
    pub(super) fn stream(&mut self, name: StreamName, line: usize) -> Result<(Stream, StreamHandle), Stop> {
        let device = name.device.unwrap_or_else(|| self.runtime.current_device());
        let Some(streams) = self.streams.get_mut(usize::from(device)) else {
            return Err(bad(line, format!("there is no device {device}")));
        };
        while streams.len() <= name.number {
            let stream = self.runtime.stream_from_pool(device, 0)?;
            streams.push((stream, self.runtime.handle(stream)?));
        }
        Ok(streams[name.number])
    }

    /// The same where a default stream means that of the current device.
    pub(super) fn stream_here(&mut self, name: StreamName, line: usize) -> Result<StreamHandle, Stop> {
        if name.number == 0 && name.device.is_some_and(|device| device != self.runtime.current_device()) {
            return Err(bad(line, "the default stream of another device".into()));
        }
        Ok(self.stream(name, line)?.1)
    }

    fn say(&mut self, line: &str) {
        self.out += line;
        self.out.push('\n');
    }

    /// The driver's calls since the last time, and among them those of pools' own allocators and the allocator's
    /// entries.
    pub(super) fn print_driver_calls(&mut self) {
        let mut entries = if self.with_entries { entries::take(&self.allocator) } else { Vec::new() };
        let own = std::mem::take(&mut *self.own_calls.lock().unwrap_or_else(PoisonError::into_inner));
        own.iter().for_each(|call| call.place_entry(&mut entries));
        entries.sort_by_key(|(calls, _)| *calls);
        let mut entries = entries.into_iter().peekable();
        let mut own = own.into_iter().peekable();
        for call in self.driver.take_calls() {
            if !entries::has_line(call.name) {
                continue;
            }
            while let Some((_, entry)) = entries.next_if(|(calls, _)| *calls <= self.calls) {
                self.print_entry(&entry);
            }
            while let Some(call) = own.next_if(|own| own.calls <= self.calls) {
                self.print_own(call);
            }
            self.calls += 1;
            if let Some(line) = self.places.driver_line(&call) {
                self.say(&line);
            }
        }
        entries.for_each(|(_, entry)| self.print_entry(&entry));
        own.for_each(|call| self.print_own(call));
    }

    fn print_own(&mut self, call: OwnCall) {
        let line = match call.what {
            OwnCallKind::Alloc { bytes } => format!("own alloc {bytes}"),
            OwnCallKind::Free { address } => format!("own free {}", self.places.place(address)),
        };
        self.say(&line);
    }

    fn print_entry(&mut self, entry: &TraceEntry) {
        let TraceEntry { action, address, size, stream, pool, .. } = *entry;
        if let Some(kept) = &mut self.kept {
            kept.add(usize::from(stream.device), entry);
        }
        let place = match action {
            TraceAction::Oom => "-".into(),
            _ => self.places.place(address),
        };
        // PyTorch says of a snapshot that it is of device 0.
        let device = if action == TraceAction::Snapshot { 0 } else { stream.device };
        self.say(&format!("trace {action} {size} {place}{}{}", in_pool(pool), on_device(device)));
    }
}

/// What stands around a command.
const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// A trace that is wrong at a line.
pub(super) fn bad(line: usize, reason: String) -> Stop {
    Stop::BadTrace(BadLine { line, reason })
}
