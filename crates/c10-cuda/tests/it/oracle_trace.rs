//! A player of the oracle's trace commands over the allocator, for tests whose cases are written in them. It answers
//! in the oracle's lines, without the statistics.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use c10_core::{DataPtr, DeviceIndex, DeviceType, Stream};
use c10_cuda::alloc::{MempoolId, PoolAllocator, PoolCheckpoint, PoolFilter, RestoredPool};
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, Driver, EventFlags, StreamHandle};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, ErrorKind};

use crate::own_memory::OwnMemory;
use crate::support::launch;

/// A run: a machine, and what the commands have named.
pub(crate) struct Player {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) cuda: CachingAllocator,
    streams: BTreeMap<DeviceIndex, Vec<Stream>>,
    pub(crate) live: HashMap<u64, DataPtr>,
    captures: HashMap<StreamHandle, (DeviceIndex, MempoolId)>,
    checkpoints: HashMap<String, PoolCheckpoint>,
    segments: Segments,
    own_log: Arc<Mutex<Vec<String>>>,
    lines: Vec<String>,
}

/// The ranges that the driver gave, numbered in turn.
#[derive(Default)]
struct Segments {
    live: BTreeMap<u64, (usize, u64)>,
    next: usize,
}

impl Segments {
    fn place(&self, at: u64) -> String {
        match self.live.range(..=at).next_back() {
            Some((base, (n, size))) if at < base + size => format!("seg{n}+{}", at - base),
            _ => "-".to_owned(),
        }
    }
}

fn on_device(device: DeviceIndex) -> String {
    if device == 0 { String::new() } else { format!(" device {device}") }
}

/// Runs commands, separated by `;` or line ends, on one device of `mib` MiB.
pub(crate) fn play(mib: u64, settings: &str, commands: &str) -> Vec<String> {
    let mut player = Player::new(1, mib, settings);
    player.run(commands);
    player.lines.clone()
}

impl Player {
    pub(crate) fn new(devices: usize, mib: u64, settings: &str) -> Self {
        let machine = SimConfig { free_waits: false, ..SimConfig::with_devices(devices, mib << 20) };
        let sim = SimDriver::new(machine.log_calls(100_000).race_detector());
        let config = Config { search_after_synchronize: false, ..Config::parse(settings).unwrap() };
        let cuda = CachingAllocator::new(sim.clone(), config).unwrap();
        Self {
            sim,
            cuda,
            streams: BTreeMap::new(),
            live: HashMap::new(),
            captures: HashMap::new(),
            checkpoints: HashMap::new(),
            segments: Segments::default(),
            own_log: Arc::default(),
            lines: Vec::new(),
        }
    }

    /// Runs commands, and gives their lines.
    pub(crate) fn run(&mut self, commands: &str) -> Vec<String> {
        let from = self.lines.len();
        let mut workers: HashMap<String, Worker> = HashMap::new();
        let commands = commands.split(['\n', ';']).map(|c| c.split('#').next().unwrap_or("").trim());
        for command in commands.filter(|command| !command.is_empty()) {
            match command.strip_prefix("t ").and_then(|rest| rest.split_once(' ')) {
                Some((n, rest)) if n != "0" => {
                    let worker = workers.entry(n.to_owned()).or_insert_with(Worker::new);
                    worker.run(self, rest.to_owned());
                }
                Some((_, rest)) => self.command(rest),
                None => self.command(command),
            }
            self.cuda.check_invariants();
        }
        self.lines[from..].to_vec()
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        self.cuda.device_stats(0).unwrap()
    }

    pub(crate) fn stream(&mut self, text: &str) -> Stream {
        let current = self.cuda.runtime().current_device();
        let (device, n) = match text.split_once(':') {
            Some((device, n)) => (device.parse().unwrap(), n),
            None => (current, text),
        };
        let n: usize = n.parse().unwrap();
        let runtime = self.cuda.runtime();
        let streams =
            self.streams.entry(device).or_insert_with(|| vec![Stream::default_of(DeviceType::Cuda, device)]);
        while streams.len() <= n {
            streams.push(runtime.stream_from_pool(device, 0).unwrap());
        }
        streams[n]
    }

    pub(crate) fn handle(&mut self, text: &str) -> StreamHandle {
        let stream = self.stream(text);
        self.cuda.runtime().handle(stream).unwrap()
    }

    fn command(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = self.answer(line, &words);
        self.driver_lines();
        match answer {
            Ok(Some(text)) => self.lines.extend(text.lines().map(str::to_owned)),
            Ok(None) => self.lines.push(format!("skip {line}")),
            Err(error) => self.lines.push(format!("error {line}: {error}")),
        }
    }

    fn driver_lines(&mut self) {
        self.lines.append(&mut self.own_log.lock().unwrap());
        for call in self.sim.take_calls() {
            let at = call.ptr.0;
            let name = match (call.name, call.status.is_some()) {
                ("malloc", true) => "segment_alloc_failed",
                ("create", true) => "phys_alloc_failed",
                ("malloc", false) => "segment_alloc",
                ("reserve", false) => "va_reserve",
                ("free", false) => "segment_free",
                ("mem_pool_reserve", true) => "async_reserve_failed",
                ("mem_pool_reserve", false) => "async_reserve",
                ("graph_malloc", _) => "graph_alloc",
                ("mem_pool_release", _) => "async_release",
                ("graph_free", _) => "graph_free",
                ("free_range", false) => "va_free",
                ("create", false) => "phys_alloc",
                ("release", false) => "phys_free",
                ("map", false) => "map",
                ("unmap", false) => "unmap",
                _ => continue,
            };
            if matches!(name, "segment_alloc" | "va_reserve" | "async_reserve" | "graph_alloc") {
                self.segments.live.insert(at, (self.segments.next, call.bytes));
                self.segments.next += 1;
            }
            let place = self.segments.place(at);
            // The stand-in tells the whole units of a range that goes.
            let bytes =
                if name == "segment_free" { call.bytes.next_multiple_of(2 << 20) } else { call.bytes };
            self.lines.push(format!("driver {name} {bytes} {place}{}", on_device(call.device)));
            if matches!(name, "segment_free" | "va_free" | "async_release" | "graph_free") {
                self.segments.live.remove(&at);
            }
        }
    }

    fn allocated(&self) -> i64 {
        let device = self.cuda.runtime().current_device();
        self.cuda.device_stats(device).unwrap().allocated_bytes.all.current
    }

    fn take(
        &mut self,
        id: u64,
        size: u64,
        get: impl FnOnce(&CachingAllocator) -> Result<DataPtr, Error>,
    ) -> Result<String, Error> {
        let before = self.allocated();
        match get(&self.cuda) {
            Ok(ptr) => {
                let at = ptr.as_ptr().addr() as u64;
                self.driver_lines();
                let place = self.segments.place(at);
                self.live.insert(id, ptr);
                Ok(format!("alloc {id} {size} block {} at {place}", self.allocated() - before))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                let text = error.to_string().replace('\n', " ");
                Ok(format!("oom {id} {size} {text}"))
            }
            Err(error) => Err(error),
        }
    }

    fn answer(&mut self, line: &str, words: &[&str]) -> Result<Option<String>, Error> {
        let cuda = self.cuda.clone();
        let device = cuda.runtime().current_device();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let pool = |at: usize| match words[at].split_once('.') {
            Some((first, second)) => MempoolId::new(first.parse().unwrap(), second.parse().unwrap()),
            None => MempoolId::new(0, words[at].parse().unwrap()),
        };
        let said = |text: &str| Ok(Some(format!("{line}{text}")));
        match words[0] {
            "a" => {
                let stream = self.stream(words[3]);
                cuda.runtime().set_current_stream(stream)?;
                let size = number(2);
                return self.take(number(1), size, |cuda| cuda.allocate(size)).map(Some);
            }
            "f" => {
                let found = self.live.remove(&number(1));
                return Ok(found.map(|_| format!("free {}", words[1])));
            }
            "r" => {
                let stream = self.stream(words[2]);
                let Some(ptr) = self.live.get(&number(1)) else { return Ok(None) };
                cuda.record_stream(ptr, stream)?;
                return Ok(Some(format!("record {} {}", words[1], words[2])));
            }
            "s" => {
                let stream = self.handle(words[1]);
                self.sim.complete_stream(stream);
                return Ok(Some(format!("complete {}", words[1])));
            }
            "S" => {
                self.sim.complete_all();
                return Ok(Some("complete all".to_owned()));
            }
            "e" => {
                cuda.empty_cache()?;
                return Ok(Some("empty_cache".to_owned()));
            }
            "m" => {
                cuda.set_memory_fraction(words[1].parse().unwrap(), device)?;
                return Ok(Some(format!("memory_fraction {}", words[1])));
            }
            "d" => {
                cuda.runtime().set_device(words[1].parse().unwrap())?;
                return Ok(Some(format!("device {}", words[1])));
            }
            "c" => {
                let stream = self.stream(words[1]);
                cuda.runtime().set_current_stream(stream)?;
            }
            "k" => launch(&*self.sim.clone(), self.handle(words[1]), "k", &[], &[], |_| {})?,
            "w" => {
                let (waiting, waited) = (self.handle(words[1]), self.handle(words[2]));
                let event = self.sim.event_create(waited.device, EventFlags::default())?;
                self.sim.event_record(event, waited)?;
                let done = self.sim.stream_wait_event(waiting, event);
                self.sim.event_destroy(event)?;
                done?;
            }
            "pool_create" => cuda.create_or_incref_pool(device, pool(1), None)?,
            "pool_begin" => {
                let filter = match words[2] {
                    "all" => PoolFilter::All,
                    "thread" => PoolFilter::this_thread(),
                    stream => PoolFilter::Stream(self.handle(stream)),
                };
                cuda.begin_allocate_to_pool(device, pool(1), filter)?;
            }
            "pool_end" => cuda.end_allocate_to_pool(device, pool(1))?,
            "pool_release" => cuda.release_pool(device, pool(1))?,
            "pool_use_on_oom" => cuda.set_use_on_oom(device, pool(1), words[2] == "1")?,
            "pool_no_split" => cuda.set_no_split(device, pool(1))?,
            "pool_empty" => cuda.empty_pool_cache(device, pool(1))?,
            "pool_count" => return said(&format!(" {}", cuda.pool_use_count(device, pool(1))?)),
            "pool_live" => {
                let expected: Option<Vec<_>> = words[2..]
                    .iter()
                    .map(|id| self.live.get(&id.parse().unwrap()))
                    .map(|ptr| ptr.map(|p| c10_cuda::driver::DevicePtr(p.as_ptr().addr() as u64)))
                    .collect();
                let Some(expected) = expected else { return Ok(None) };
                let yes = cuda.check_pool_live_allocations(device, pool(1), &expected)?;
                return said(if yes { " yes" } else { " no" });
            }
            "mempool" => {
                let own = words.contains(&"own").then(|| {
                    Arc::new(OwnMemory::logged(self.sim.clone(), Arc::clone(&self.own_log)))
                        as Arc<dyn PoolAllocator>
                });
                cuda.create_or_incref_pool(device, pool(1), own)?;
                if words.contains(&"no_split") {
                    cuda.set_no_split(device, pool(1))?;
                }
                if words.contains(&"use_on_oom") {
                    cuda.set_use_on_oom(device, pool(1), true)?;
                }
            }
            "mempool_del" => {
                cuda.set_use_on_oom(device, pool(1), false)?;
                cuda.release_pool(device, pool(1))?;
                cuda.empty_pool_cache(device, pool(1))?;
            }
            "use" => cuda.begin_allocate_to_pool(device, pool(1), PoolFilter::this_thread())?,
            "unuse" => {
                cuda.end_allocate_to_pool(device, pool(1))?;
                cuda.release_pool(device, pool(1))?;
            }
            "capture_begin" => {
                let mode = match words.get(3) {
                    None | Some(&"global") => CaptureMode::Global,
                    Some(&"thread_local") => CaptureMode::ThreadLocal,
                    Some(_) => CaptureMode::Relaxed,
                };
                let stream = self.stream(words[1]);
                let handle = self.handle(words[1]);
                cuda.runtime().set_current_stream(stream)?;
                self.sim.stream_begin_capture(handle, mode)?;
                let info = self.sim.capture_info(handle)?.unwrap();
                let begun = cuda.begin_allocate_to_pool(handle.device, pool(2), PoolFilter::Capture(info.id));
                if begun.is_err() {
                    let graph = self.sim.stream_end_capture(handle)?;
                    self.sim.graph_destroy(graph)?;
                }
                begun?;
                cuda.mark_capture_begin(handle.device)?;
                self.captures.insert(handle, (handle.device, pool(2)));
            }
            "capture_end" => {
                let handle = self.handle(words[1]);
                let Some((device, pool)) = self.captures.remove(&handle) else { return Ok(None) };
                let ended = self.sim.stream_end_capture(handle);
                cuda.mark_capture_end(device)?;
                cuda.end_allocate_to_pool(device, pool)?;
                let graph = ended?;
                let nodes = self.sim.graph_node_count(graph)?;
                self.sim.graph_destroy(graph)?;
                return said(&format!(" nodes {nodes}"));
            }
            "snapshot" => {
                cuda.supports("snapshot")?;
                let of = if words.len() > 1 { pool(1) } else { MempoolId::DEFAULT };
                return Ok(Some(format!("{line}{}", self.snapshot(of))));
            }
            "cache_info" => return said(&format!(" {}", cuda.cache_info(device)?)),
            "base" => {
                let Some(ptr) = self.live.get(&number(1)) else { return Ok(None) };
                let (at, size) = cuda.base_allocation(ptr)?;
                return said(&format!(" {} size {size}", self.segments.place(at.0)));
            }
            "checkpoint" => {
                let checkpoint = cuda.checkpoint_pool(device, pool(2))?;
                self.checkpoints.insert(words[1].to_owned(), checkpoint);
            }
            "restore" => {
                let Some(checkpoint) = self.checkpoints.get(words[1]) else { return Ok(None) };
                let (ids, mut owners): (Vec<u64>, Vec<DataPtr>) = self.live.drain().unzip();
                let places: HashMap<_, _> = owners.iter().map(|p| p.as_ptr()).zip(ids).collect();
                let restored = cuda.restore_pool(device, checkpoint, &mut owners);
                let kept: Vec<_> = owners.iter().map(|p| places[&p.as_ptr()]).collect();
                self.live.extend(kept.iter().copied().zip(owners));
                let mut gone: Vec<_> = places.into_values().filter(|id| !kept.contains(id)).collect();
                gone.sort_unstable();
                return Ok(Some(format!("{line}{}", self.restored(restored?, &gone, number(2)))));
            }
            "at" => {
                let (id, size) = (number(1), number(2));
                let stream = self.stream(words[3]);
                let Some(live) = self.live.get(&number(4)) else { return Ok(None) };
                let at = live.as_ptr().addr() as u64 + number(5);
                cuda.runtime().set_current_stream(stream)?;
                let at = c10_cuda::driver::DevicePtr(at);
                return self.take(id, size, |cuda| cuda.allocate_at(size, at, stream)).map(Some);
            }
            "fraction" => return said(&format!(" {:.6}", cuda.memory_fraction(device)?)),
            "history" => cuda.supports("recordHistory")?,
            "reset_peak" => cuda.reset_peak_stats(device)?,
            "reset_accumulated" => cuda.reset_accumulated_stats(device)?,
            "enable" => cuda.enable(words[1] == "1"),
            other => panic!("no command {other}"),
        }
        said("")
    }

    fn restored(&mut self, restored: RestoredPool, gone: &[u64], first: u64) -> String {
        let mut text: String = gone.iter().map(|id| format!("\nfreed {id}")).collect();
        assert_eq!(restored.freed.len(), gone.len());
        for (id, ptr) in (first..).zip(restored.created) {
            text += &format!("\nrestored {id} at {}", self.segments.place(ptr.as_ptr().addr() as u64));
            self.live.insert(id, ptr);
        }
        text
    }

    fn snapshot(&self, of: MempoolId) -> String {
        let mut text = String::new();
        for s in self.cuda.snapshot_of(of, false).segments {
            let pool = if s.pool.first == 0 { String::new() } else { format!("{}.", s.pool.first) };
            let device = s.stream.device;
            let handle = |stream: &Stream| self.cuda.runtime().handle(*stream).unwrap();
            let stream =
                self.streams.get(&device).and_then(|all| all.iter().position(|x| handle(x) == s.stream));
            text += &format!(
                "\nsegment {} device {device} pool {pool}{} stream {} {} total {} allocated {} active {} requested {}",
                self.segments.place(s.address.0),
                s.pool.second,
                stream.unwrap_or(0),
                if s.is_large { "large" } else { "small" }.to_owned()
                    + if s.is_expandable { " expandable" } else { "" },
                s.total_size,
                s.allocated_size,
                s.active_size,
                s.requested_size,
            );
            let mut at = s.address.0;
            for block in s.blocks {
                let state = block.state.name();
                let requested = format!(" requested {}", block.requested_size);
                let requested = if state == "inactive" { "" } else { &requested };
                text +=
                    &format!("\nblock {} size {}{requested} {state}", self.segments.place(at), block.size);
                at += block.size;
            }
        }
        text
    }
}

/// A thread that runs commands and lives on between them.
struct Worker(Sender<Box<dyn FnOnce() + Send>>);

impl Worker {
    fn new() -> Self {
        let (sender, tasks) = channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || tasks.into_iter().for_each(|task| task()));
        Self(sender)
    }

    fn run(&self, player: &mut Player, command: String) {
        let empty = Player { sim: player.sim.clone(), cuda: player.cuda.clone(), ..Player::new(1, 2, "") };
        let mut theirs = std::mem::replace(player, empty);
        let (back, done) = channel();
        let task = move || {
            theirs.command(&command);
            back.send(theirs).map_err(|_| "the test waits for it").unwrap();
        };
        self.0.send(Box::new(task)).map_err(|_| "the thread lives").unwrap();
        *player = done.recv().unwrap();
    }
}
