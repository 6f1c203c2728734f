//! [`Machine`]: the simulated machine of this process, and the books on all that the program has been given.

mod contexts;
mod copies;
pub(crate) mod current;
mod ends;
mod graphs;
mod memory;
mod modules;
mod plan;
mod promised;
mod shares;
mod streams;
mod table;
mod virtual_memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use c10_core::DeviceIndex;
use c10_cuda::driver::sim::{AccessFault, Completion, SimDriver};

use crate::abi::{Code, Handle, Outcome};
use crate::entry::Needs;
use crate::environment::Settings;
use crate::exit;

pub(crate) use contexts::{Context, Primary, check_flags};
pub(crate) use ends::is_device_address;
pub(crate) use graphs::{Exec, Graph};
pub(crate) use memory::{AllocationKind, Memory};
pub(crate) use modules::{Function, Module};
use plan::Plan;
pub(crate) use promised::{HostFunction, StreamCallback};
pub(crate) use streams::{Event, OnStream, Stream, StreamKind};
pub(crate) use table::Table;
pub(crate) use virtual_memory::{FILE_DESCRIPTOR, PINNED};

/// The machine, and its books. The handles and addresses that the program holds mean nothing but by these.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) settings: Settings,
    initialized: bool,
    /// How many calls there have been, in the life of the process.
    pub(crate) calls: u64,
    pub(crate) plan: Plan,
    /// By device.
    pub(crate) primaries: Vec<Primary>,
    /// The default memory pools, by device.
    pub(crate) pools: Vec<Handle>,
    /// What was set of them, by device.
    pub(crate) release_thresholds: Vec<u64>,
    /// Which devices were let into each pool.
    pub(crate) pool_access: Vec<BTreeSet<DeviceIndex>>,
    pub(crate) contexts: Table<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) graphs: Table<Graph>,
    pub(crate) execs: Table<Exec>,
    pub(crate) memory: Memory,
    /// The graphs of captures that are under way, by the capture's number.
    pub(crate) captures: BTreeMap<u64, Handle>,
    /// How many things ended with their context, and not by a call of their own.
    pub(crate) swept: u64,
    numbers: u64,
}

impl Machine {
    pub(crate) fn from_environment() -> Self {
        Self::new(Settings::from_environment())
    }

    fn new(settings: Settings) -> Self {
        Self {
            sim: SimDriver::new(settings.config()),
            settings,
            initialized: false,
            calls: 0,
            plan: Plan::default(),
            primaries: (0..settings.devices).map(|_| Primary::default()).collect(),
            pools: (0..settings.devices).map(|_| Handle::next()).collect(),
            release_thresholds: vec![0; settings.devices],
            pool_access: vec![BTreeSet::new(); settings.devices],
            contexts: Table::new(),
            streams: Table::new(),
            events: Table::new(),
            modules: Table::new(),
            functions: Table::new(),
            graphs: Table::new(),
            execs: Table::new(),
            memory: Memory::default(),
            captures: BTreeMap::new(),
            swept: 0,
            numbers: 0,
        }
    }

    /// Another machine in the place of this one, unless the program still holds something of it: then how much.
    pub(crate) fn reset(&mut self, settings: Settings) -> u64 {
        let live = self.live_handles();
        if live == 0 {
            let (initialized, calls) = (self.initialized, self.calls);
            *self = Self::new(settings);
            (self.initialized, self.calls) = (initialized && settings.devices != 0, calls);
        }
        live
    }

    /// How much the program holds, contexts apart.
    pub(crate) fn live_handles(&self) -> u64 {
        let tables =
            [self.streams.len(), self.events.len(), self.modules.len(), self.graphs.len(), self.execs.len()];
        tables.iter().sum::<u64>() + self.memory.live()
    }

    /// How many contexts there are, and how often primary ones are retained beyond the first time.
    pub(crate) fn live_contexts(&self) -> u64 {
        let again: u64 =
            self.primaries.iter().map(|primary| u64::from(primary.retains.saturating_sub(1))).sum();
        self.contexts.len() + again
    }

    /// `cuInit`.
    pub(crate) fn initialize(&mut self, flags: u32) -> Outcome {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if self.settings.devices == 0 {
            return Err(Code::NO_DEVICE);
        }
        exit::watch();
        self.initialized = true;
        Ok(())
    }

    /// Counts a call, and says why it fails before it does anything, if it does.
    pub(crate) fn begin_call(&mut self, name: &str) -> Outcome {
        self.calls += 1;
        if exit::is_forked() {
            return Err(Code::NOT_INITIALIZED);
        }
        self.plan.strike(name).map_or(Ok(()), Err)
    }

    /// Runs an operation when what it needs is there.
    pub(crate) fn checked<R>(
        &mut self,
        needs: Needs,
        op: impl FnOnce(&mut Self) -> Outcome<R>,
    ) -> Outcome<R> {
        if needs != Needs::Nothing && !self.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        let lost = match needs {
            Needs::Context | Needs::GiveBack => self.current_context()?.1.lost,
            Needs::Nothing | Needs::Init => None,
        };
        if needs == Needs::Context
            && let Some(code) = lost
        {
            return Err(code);
        }
        let result = op(self);
        self.notice_faults();
        match lost {
            Some(code) if result.is_ok() => Err(code),
            _ => result,
        }
    }

    /// Contexts whose work has faulted are lost.
    fn notice_faults(&mut self) {
        for fault in self.sim.take_faults() {
            let code = match fault.fault {
                AccessFault::Panicked(_) => Code::LAUNCH_FAILED,
                _ => Code::ILLEGAL_ADDRESS,
            };
            self.lose(fault.stream.device, code);
        }
    }

    /// Loses all contexts of a device: every call in them fails with `code` until they have ended.
    pub(crate) fn lose(&mut self, device: DeviceIndex, code: Code) {
        for context in self.contexts.values_mut().filter(|context| context.device == device) {
            context.lost.get_or_insert(code);
        }
    }

    /// Whether work runs when it is issued.
    pub(crate) fn is_eager(&self) -> bool {
        matches!(self.settings.completion, Completion::Eager)
    }

    /// A number that nothing else of this machine has.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The device of an ordinal.
    pub(crate) fn device(&self, ordinal: i32) -> Outcome<DeviceIndex> {
        let device = DeviceIndex::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        if usize::from(device) < self.settings.devices { Ok(device) } else { Err(Code::INVALID_DEVICE) }
    }

    /// Runs all work there is.
    pub(crate) fn complete_all(&self) {
        self.sim.complete_all();
    }
}
