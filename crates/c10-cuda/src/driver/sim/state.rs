//! [`State`]: everything that a simulated driver's one lock guards.

use c10_core::DeviceIndex;

use super::call::CallName;
use super::capture::Captures;
use super::clock::Clock;
use super::config::{MAX_DEVICES, SimConfig};
use super::event::EventState;
use super::fault::Faults;
use super::graph::Execs;
use super::graph_memory::GraphHolds;
use super::host::Pinned;
use super::log::{Call, Ring, Work};
use super::mem_pool::MemPool;
use super::memory::Memory;
use super::module::Modules;
use super::per_thread::PerThread;
use super::process::ProcessId;
use super::race::Detector;
use super::remains::Remains;
use super::report::WorkFault;
use super::schedule::Schedule;
use super::slab::{Id, Slab};
use super::space::{Space, round_up};
use super::stream::StreamState;
use crate::driver::{DevicePtr, Status};

/// The first address of device 0: no host mapping lies there, and JSON keeps it exact.
const FIRST_ADDRESS: u64 = 1 << 52;
/// The addresses of a device.
const DEVICE_SPAN: u64 = 1 << 47;
/// Of these, those for `malloc`; the rest are for reservations.
const MALLOC_SPAN: u64 = 1 << 46;

/// One device.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) total: u64,
    /// Bytes in use, in whole units.
    pub(super) in_use: u64,
    pub(super) malloc_space: Space,
    pub(super) va_space: Space,
    pub(super) pool: MemPool,
    /// What graphs have of it.
    pub(super) graph_pool: MemPool,
    /// By process.
    pub(super) default_streams: Vec<Id>,
    /// The devices whose memory it may reach, by bit.
    pub(super) peers: u32,
    /// Whether a fault of its work has yet to be told to a synchronising call.
    pub(super) fault_untold: bool,
}

/// All state of a simulated machine.
#[derive(Debug)]
pub(super) struct State {
    pub(super) devices: Vec<DeviceState>,
    /// Whose call is served.
    pub(super) process: ProcessId,
    pub(super) peers_possible: bool,
    pub(super) free_waits: bool,
    pub(super) frugal_pools: bool,
    pub(super) memory: Memory,
    pub(super) pinned: Pinned,
    pub(super) streams: Slab<StreamState>,
    pub(super) events: Slab<EventState>,
    pub(super) captures: Captures,
    pub(super) execs: Execs,
    pub(super) graph_holds: GraphHolds,
    pub(super) modules: Modules,
    pub(super) per_thread: PerThread,
    pub(super) clock: Clock,
    pub(super) schedule: Schedule,
    pub(super) faults: Faults,
    pub(super) work_faults: Vec<WorkFault>,
    /// Bodies that have run and are to be dropped without the lock.
    pub(super) remains: Vec<Remains>,
    pub(super) races: Option<Box<Detector>>,
    pub(super) calls: Ring<Call>,
    pub(super) work: Ring<Work>,
    pub(super) counts: [u64; CallName::COUNT],
}

impl State {
    pub(super) fn new(config: SimConfig) -> Self {
        assert!(config.devices.len() <= MAX_DEVICES, "a simulated machine has at most {MAX_DEVICES} devices");
        let mut streams = Slab::new();
        let reservable = config.reservable_bytes.min(DEVICE_SPAN - MALLOC_SPAN);
        let devices = (0..).zip(&config.devices).map(|(index, &total)| {
            let base = FIRST_ADDRESS + u64::from(index) * DEVICE_SPAN;
            let default_stream = streams.insert(StreamState::default_of(index, ProcessId::FIRST));
            DeviceState {
                // Statistics are signed.
                total: total.min(i64::MAX as u64),
                in_use: 0,
                malloc_space: Space::new(base, MALLOC_SPAN),
                va_space: Space::new(base + MALLOC_SPAN, reservable),
                pool: MemPool::default(),
                graph_pool: MemPool::default(),
                default_streams: vec![default_stream.expect("the first streams have numbers")],
                peers: 0,
                fault_untold: false,
            }
        });
        Self {
            devices: devices.collect(),
            process: ProcessId::FIRST,
            peers_possible: config.peers,
            free_waits: config.free_waits,
            frugal_pools: config.frugal_pools,
            memory: Memory::new(),
            pinned: Pinned::new(config.pinned_bytes),
            streams,
            events: Slab::new(),
            captures: Captures::default(),
            execs: Execs::new(),
            graph_holds: GraphHolds::new(),
            modules: Modules::new(),
            per_thread: PerThread::default(),
            clock: Clock::default(),
            schedule: Schedule::new(config.completion),
            faults: Faults::new(config.faults),
            work_faults: Vec::new(),
            remains: Vec::new(),
            races: config.race_detector.then(|| Box::new(Detector::new())),
            calls: Ring::new(config.log_calls),
            work: Ring::new(config.log_calls),
            counts: [0; CallName::COUNT],
        }
    }

    pub(super) fn device(&self, device: DeviceIndex) -> Result<&DeviceState, Status> {
        self.devices.get(usize::from(device)).ok_or(Status::InvalidDevice)
    }

    pub(super) fn device_mut(&mut self, device: DeviceIndex) -> Result<&mut DeviceState, Status> {
        self.devices.get_mut(usize::from(device)).ok_or(Status::InvalidDevice)
    }

    /// The device that an address is on: of the live range there, else of the region.
    pub(super) fn device_of(&self, ptr: DevicePtr) -> DeviceIndex {
        let region = || {
            let index = ptr.0.checked_sub(FIRST_ADDRESS)? / DEVICE_SPAN;
            DeviceIndex::try_from(index).ok().filter(|&index| usize::from(index) < self.devices.len())
        };
        self.memory.device_at(ptr.0).or_else(region).unwrap_or(0)
    }

    /// Why the fault plan fails this call, if it does.
    pub(super) fn planned_fault(
        &mut self,
        name: CallName,
        device: DeviceIndex,
        bytes: u64,
    ) -> Option<Status> {
        if self.faults.is_empty() {
            return None;
        }
        let takes_memory = matches!(name, CallName::Malloc | CallName::Create | CallName::MallocAsync);
        let would_use = match self.devices.get(usize::from(device)) {
            Some(state) if takes_memory => {
                Some(state.in_use.saturating_add(round_up(bytes).unwrap_or(u64::MAX)))
            }
            _ => None,
        };
        self.faults.strike(name, would_use)
    }
}
