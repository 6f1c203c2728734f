//! [`Worker`]: one thread of a program, and what its operations are made of.

use std::sync::{Arc, Mutex, PoisonError};

use c10_core::{DataPtr, DeviceIndex, DeviceType, Stream};
use c10_cuda::alloc::MemPool;
use c10_cuda::driver::sim::SimDriver;
use c10_cuda::driver::{CopyEnd, DevicePtr, Driver, EventFlags, StreamHandle};
use c10_cuda::{CachingAllocator, ErrorKind, PinnedAllocator, PinnedConfig, Runtime};

use super::machines::Machine;
use super::operations;
use crate::rig::address;
use crate::rng::Rng;
use crate::support::{copy, copy_ends, launch, range};

/// Streams of each device, the default one among them.
const STREAMS: usize = 4;
/// How many blocks a worker holds at most.
const MOST_HELD: usize = 160;
/// A block's first bytes say whose it is.
const MARK: u64 = 8;

/// What all threads of a program share.
pub(crate) struct Shared {
    exchange: Mutex<Vec<Held>>,
    pub(crate) cuda: CachingAllocator,
    pub(crate) pinned: PinnedAllocator,
    pub(crate) runtime: Runtime,
    pub(crate) sim: Arc<SimDriver>,
    streams: Vec<Stream>,
}

/// Who owns a block's memory.
enum Owner {
    Ptr(DataPtr),
    Raw(DevicePtr),
}

/// A block that the program holds, and who used it last.
struct Held {
    owner: Owner,
    ptr: DevicePtr,
    bytes: u64,
    home: Stream,
    last: Stream,
    /// What its first bytes are, once somebody has written them.
    mark: Option<u64>,
}

impl Shared {
    pub(crate) fn new(machine: &Machine, seed: u64) -> Arc<Self> {
        let sim = SimDriver::new(machine.sim().log_calls(if seed < 4 { 10_000 } else { 0 }));
        let runtime = Runtime::new(Arc::clone(&sim) as Arc<dyn Driver>);
        let cuda =
            CachingAllocator::with_runtime(runtime.clone(), machine.config()).expect("it is supported");
        let pinned = PinnedAllocator::new(runtime.clone(), PinnedConfig::default()).expect("it is supported");
        let mut streams = Vec::new();
        for device in 0..machine.devices() as DeviceIndex {
            streams.push(Stream::default_of(DeviceType::Cuda, device));
            // Not the runtime's pool, whose many streams a seeded schedule would look at for every item.
            streams.extend((1..STREAMS).map(|_| {
                let handle = sim.stream_create(device, 0).expect("a stream");
                runtime.external_stream(handle).expect("it is one")
            }));
        }
        Arc::new(Self { exchange: Mutex::default(), cuda, pinned, runtime, sim, streams })
    }

    /// Looks at the rules of the allocator, and at what the machine has found.
    pub(crate) fn check(&self) {
        self.cuda.check_invariants();
        self.pinned.check_invariants();
        let races = self.sim.races();
        assert!(races.is_empty(), "{}", races[0]);
        let faults = self.sim.take_faults();
        assert!(faults.is_empty(), "{}", faults[0]);
    }

    /// Ends the program: all memory goes back, and every event.
    pub(crate) fn finish(self: Arc<Self>) {
        let left = std::mem::take(&mut *self.exchange.lock().unwrap_or_else(PoisonError::into_inner));
        left.into_iter().for_each(|held| self.give_back(held));
        let shared = Arc::into_inner(self).expect("the workers have ended");
        let Self { exchange: _, cuda, pinned, runtime, sim, streams: _ } = shared;
        cuda.empty_cache().expect("no call fails");
        pinned.empty_cache().expect("no call fails");
        cuda.check_invariants();
        sim.complete_all();
        for device in 0..runtime.device_count() {
            let stats = cuda.device_stats(device).expect("the device is there");
            assert_eq!(stats.active_bytes.all.current, 0);
            assert_eq!(stats.reserved_bytes.all.current, 0);
            let info = sim.memory_info(device).expect("the device is there");
            assert_eq!(info.free, info.total, "all memory is the driver's");
        }
        drop((cuda, pinned, runtime));
        assert_eq!(sim.call_count("host_alloc"), sim.call_count("host_free"));
        assert_eq!(sim.call_count("event_create"), sim.call_count("event_destroy"));
        assert_eq!(sim.races(), []);
        assert_eq!(sim.take_faults(), []);
    }

    fn give_back(&self, held: Held) {
        match held.owner {
            Owner::Ptr(ptr) => drop(ptr),
            #[expect(unsafe_code, reason = "gives raw memory back")]
            // SAFETY: the block is forgotten, and every stream that used it was recorded.
            Owner::Raw(ptr) => unsafe { self.cuda.raw_delete(ptr) }.expect("it was held"),
        }
    }

    pub(crate) fn handle(&self, stream: Stream) -> StreamHandle {
        self.runtime.handle(stream).expect("it is a stream of the program")
    }

    /// Makes what `waiter` does next wait for what `source` holds now.
    fn order(&self, waiter: Stream, source: Stream) {
        if waiter != source {
            let (waiter, source) = (self.handle(waiter), self.handle(source));
            let event = self.sim.event_create(source.device, EventFlags::default()).expect("an event");
            self.sim.event_record(event, source).expect("recorded");
            self.sim.stream_wait_event(waiter, event).expect("it waits");
            self.sim.event_destroy(event).expect("it was live");
        }
    }
}

/// One thread. Its generator decides all that it does.
pub(crate) struct Worker {
    held: Vec<Held>,
    pub(crate) pools: Vec<Arc<MemPool>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) rng: Rng,
    marks: u64,
    at: u64,
    doing: &'static str,
    /// Whether it leaves `record_stream` out now and then.
    pub(crate) forgets: bool,
    /// Whether no other thread is at work.
    pub(crate) is_alone: bool,
}

impl Worker {
    pub(crate) fn new(shared: &Arc<Shared>, seed: u64) -> Self {
        Self {
            held: Vec::new(),
            pools: Vec::new(),
            shared: Arc::clone(shared),
            rng: Rng::new(seed),
            marks: seed << 32,
            at: 0,
            doing: "",
            forgets: false,
            is_alone: true,
        }
    }

    /// The next operation.
    pub(crate) fn step(&mut self) {
        self.at += 1;
        let operation = operations::next(self);
        self.doing = operation.name;
        (operation.run)(self);
    }

    pub(crate) fn allocate_up_to(&mut self, bytes: u64) {
        let bytes = 1 + self.rng.below(bytes);
        let stream = self.stream();
        match self.shared.cuda.allocate_on(bytes, stream) {
            Ok(ptr) => {
                let at = DevicePtr(address(&ptr));
                self.hold(Owner::Ptr(ptr), at, bytes, stream);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                self.free();
            }
        }
    }

    /// Asks for the same a few times in a row, and gives it back at once.
    pub(crate) fn come_and_go(&mut self) {
        let bytes = 1 + self.rng.below(3 << 20);
        let stream = self.stream();
        for _ in 0..1 + self.rng.below(4) {
            match self.shared.cuda.allocate_on(bytes, stream) {
                Ok(ptr) => {
                    let at = DevicePtr(address(&ptr));
                    self.hold(Owner::Ptr(ptr), at, bytes, stream);
                    let newest = self.held.pop().expect("it was put there");
                    self.shared.give_back(newest);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}"),
            }
        }
    }

    pub(crate) fn raw_alloc(&mut self) {
        let bytes = 1 + self.rng.below(3 << 20);
        let stream = self.stream();
        match self.shared.cuda.raw_alloc_with_stream(bytes, stream) {
            Ok(at) => self.hold(Owner::Raw(at), at, bytes, stream),
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}"),
        }
    }

    fn hold(&mut self, owner: Owner, ptr: DevicePtr, bytes: u64, home: Stream) {
        if self.held.len() == MOST_HELD {
            self.free();
        }
        self.held.push(Held { owner, ptr, bytes, home, last: home, mark: None });
        let newest = self.held.len() - 1;
        self.run_on(newest, home);
    }

    /// Gives a block back, whatever still uses it.
    pub(crate) fn free(&mut self) {
        if let Some(held) = self.take() {
            self.shared.give_back(held);
        }
    }

    /// Gives a block back once its own stream has waited for the last that used it.
    pub(crate) fn free_ordered(&mut self) {
        if let Some(held) = self.take() {
            self.shared.order(held.home, held.last);
            self.shared.give_back(held);
        }
    }

    pub(crate) fn use_on_own(&mut self) {
        if let Some(at) = self.choose() {
            self.run_on(at, self.held[at].home);
        }
    }

    pub(crate) fn use_elsewhere(&mut self) {
        if let Some(at) = self.choose() {
            let other = self.stream();
            // A kernel reaches memory of its own device.
            if other.device_index() == self.held[at].home.device_index() {
                self.run_on(at, other);
            }
        }
    }

    /// Copies a part of one block to another, on a stream of either's device or of none.
    pub(crate) fn copy(&mut self) {
        let (Some(from), Some(to)) = (self.choose(), self.choose()) else { return };
        if from == to {
            return;
        }
        let stream = self.stream();
        let bytes = self.held[from].bytes.min(self.held[to].bytes).min(256);
        self.enter(from, stream);
        self.enter(to, stream);
        let (src, dst) = (self.held[from].ptr, self.held[to].ptr);
        copy(&*self.shared.sim, dst, src, bytes, self.shared.handle(stream)).expect("issued");
        self.held[to].mark = self.held[from].mark.filter(|_| bytes >= MARK);
    }

    /// Copies from or to pinned memory of the host, which is given back while the copy may still be under way.
    pub(crate) fn copy_pinned(&mut self, from_host: bool) {
        let Some(at) = self.choose() else { return };
        let stream = self.stream();
        let bytes = self.held[at].bytes.min(1 + self.rng.below(9000));
        let pinned = self.shared.pinned.allocate(bytes).expect("the host has memory");
        self.enter(at, stream);
        let (host, device) = (CopyEnd::Host(pinned.as_ptr().cast()), CopyEnd::Device(self.held[at].ptr));
        let (dst, src) = if from_host { (device, host) } else { (host, device) };
        let on = self.shared.handle(stream);
        copy_ends(&*self.shared.sim, dst, src, bytes, on).expect("issued");
        assert!(self.shared.pinned.record_event(&pinned, stream).expect("it is the allocator's"));
        if from_host {
            self.held[at].mark = None;
        }
    }

    /// Leaves a block to whoever comes for it, and takes one.
    pub(crate) fn exchange(&mut self) {
        let given = self.take();
        let mut exchange = self.shared.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.extend(given);
        let taken = (exchange.len() > 6).then(|| exchange.remove(0));
        drop(exchange);
        self.held.extend(taken);
        if self.held.len() > MOST_HELD {
            self.free();
        }
    }

    pub(crate) fn complete_stream(&mut self) {
        let stream = self.stream();
        self.shared.sim.complete_stream(self.shared.handle(stream));
    }

    pub(crate) fn stream_synchronize(&mut self) {
        let stream = self.stream();
        self.shared.sim.stream_synchronize(self.shared.handle(stream)).expect("no work has faulted");
    }

    pub(crate) fn device_synchronize(&mut self) {
        let device = self.stream().device_index();
        self.shared.sim.device_synchronize(device).expect("no work has faulted");
    }

    /// Issues a kernel that checks the block's mark and writes another. It uses all of the block.
    fn run_on(&mut self, at: usize, stream: Stream) {
        self.enter(at, stream);
        self.marks += 1;
        let next = self.marks;
        let held = &mut self.held[at];
        let expected = if held.bytes >= MARK { held.mark.replace(next) } else { None };
        let all = [range(held.ptr, held.bytes)];
        let marked = held.bytes >= MARK;
        let body = move |memory: &mut dyn c10_cuda::driver::KernelMemory| {
            if marked {
                let mut found = [0; MARK as usize];
                memory.read(0, 0, &mut found);
                let found = u64::from_le_bytes(found);
                assert!(expected.is_none_or(|mark| mark == found), "{expected:?} was overwritten by {found}");
                memory.write(0, 0, &next.to_le_bytes());
            }
        };
        launch(&*self.shared.sim, self.shared.handle(stream), "mark", &all, &all, body).expect("issued");
    }

    /// Orders a stream behind the last that used a block, and says that it uses it now.
    fn enter(&mut self, at: usize, stream: Stream) {
        let held = &mut self.held[at];
        self.shared.order(stream, held.last);
        held.last = stream;
        if self.forgets && self.rng.below(4) == 0 {
            return;
        }
        let recorded = match &held.owner {
            Owner::Ptr(ptr) => self.shared.cuda.record_stream(ptr, stream),
            Owner::Raw(ptr) => self.shared.cuda.record_stream_raw(*ptr, stream),
        };
        recorded.expect("the block and the stream are there");
    }

    pub(crate) fn stream(&mut self) -> Stream {
        let streams = &self.shared.streams;
        streams[self.rng.place(streams.len())]
    }

    fn choose(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.rng.place(self.held.len()))
    }

    fn take(&mut self) -> Option<Held> {
        self.choose().map(|at| self.held.swap_remove(at))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("soak: in operation {}, {}", self.at, self.doing);
        }
        while let Some(held) = self.held.pop() {
            if !std::thread::panicking() {
                self.shared.give_back(held);
            }
        }
    }
}
