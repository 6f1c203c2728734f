//! Items of work, and what running them does.

use std::sync::Arc;

use c10_core::DeviceIndex;

use super::access::{Piece, Toucher};
use super::driver::as_work;
use super::graph_run::GraphRun;
use super::host_bytes::HostRange;
use super::kernel::run_body;
use super::module::FunctionCall;
use super::node::{SharedKernel, lock};
use super::process::ProcessId;
use super::remains::{Leftover, Remains};
use super::report::{AccessFault, Touched, WorkFault};
use super::slab::Id;
use super::state::State;
use crate::driver::{Access, DevicePtr, KernelLaunch, KernelMemory, StreamHandle};

/// How much a copy moves at a time.
const CHUNK: usize = 64 << 10;

/// What stands in a stream's queue.
#[derive(Debug)]
pub(super) enum Item {
    /// A place that an event stands for.
    Record,
    /// Nothing behind it runs before `stream` has run up to `place`.
    Wait { stream: Id, place: u64 },
    /// A place from which on a range of a pool is not used.
    Free,
    /// Moves bytes.
    Copy { dst: End, src: End, bytes: u64 },
    /// Sets bytes to one value.
    Fill { dst: DevicePtr, value: u8, bytes: u64 },
    /// Runs a kernel's body.
    Kernel(Box<KernelLaunch>),
    /// Runs the body of a kernel that a graph has.
    Shared(SharedKernel),
    /// Runs a function of a module.
    Function(Arc<FunctionCall>),
    /// A place from which on memory of a graph may be used.
    Alloc,
    /// A graph has been made ready for its launch.
    Upload,
    /// Runs a graph.
    Graph(Box<GraphRun>),
}

/// One end of a copy.
#[derive(Debug)]
pub(super) enum End {
    Device(DevicePtr),
    Host(HostRange),
}

impl End {
    /// What a copy does to memory of a device here.
    pub(super) fn on_device(&self, bytes: u64, write: bool) -> Option<Touched> {
        match *self {
            Self::Device(ptr) => Some(Touched { ptr, bytes, write }),
            Self::Host(_) => None,
        }
    }

    /// What it does to memory of the host here, by the host's address.
    pub(super) fn on_host(&self, bytes: u64, write: bool) -> Option<Touched> {
        match self {
            Self::Device(_) => None,
            Self::Host(host) => Some(Touched { ptr: DevicePtr(host.address()), bytes, write }),
        }
    }
}

impl Item {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Wait { .. } => "wait",
            Self::Free => "free",
            Self::Copy { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Kernel(kernel) => kernel.name,
            Self::Shared(kernel) => lock(kernel).name,
            Self::Function(call) => call.name,
            Self::Alloc => "malloc_async",
            Self::Upload => "upload",
            Self::Graph(_) => "graph",
        }
    }
}

/// An item with what was known when it was issued.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) item: Item,
    /// How many ranges had come to life by then: memory that is younger is not what the item meant.
    pub(super) issued_at: u64,
    pub(super) end_ns: u64,
    /// Whose work it is.
    pub(super) process: ProcessId,
}

/// Where an item runs, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) on: StreamHandle,
    /// The device whose work it is: of a launch's nodes, not always the stream's.
    pub(super) device: DeviceIndex,
    pub(super) process: ProcessId,
    pub(super) issued_at: u64,
}

/// A fault with the range that it is about, if it is about one.
type Fault = (Option<Touched>, AccessFault);

/// An end with the pieces behind it.
enum Resolved {
    Device(Vec<Piece>),
    Host(HostRange),
}

impl State {
    /// Runs an item. A fault is kept for [`take_faults`](super::SimDriver::take_faults) and for the device's
    /// next synchronising call.
    pub(super) fn execute(&mut self, ran: Ran, item: Item) {
        if let Item::Record = item {
            return;
        }
        let Ran { on, device, process, issued_at } = ran;
        let name = item.name();
        let reach = self.device(device).map_or(0, |d| d.peers) | 1 << device;
        let mut who = Toucher { device, process: Some(process), reach, by_copy: false, issued_at };
        let result = match item {
            Item::Record | Item::Wait { .. } | Item::Free | Item::Alloc | Item::Upload => Ok(()),
            Item::Graph(run) => {
                self.end_run(&run);
                Ok(())
            }
            Item::Copy { dst, src, bytes } => {
                who.by_copy = true;
                self.run_copy(dst, src, bytes, &who)
            }
            Item::Fill { dst, value, bytes } => self.run_fill(dst, value, bytes, &who),
            Item::Kernel(mut kernel) => {
                let KernelLaunch { name: _, reads, writes, body } = &mut *kernel;
                let result = self.run_kernel(reads, writes, body, &who);
                self.remains.push(Remains { stream: on, name, of: Leftover::Body(kernel.body) });
                result
            }
            Item::Shared(kernel) => {
                let mut locked = lock(&kernel);
                let KernelLaunch { name: _, reads, writes, body } = &mut *locked;
                let result = self.run_kernel(reads, writes, body, &who);
                drop(locked);
                self.remains.push(Remains { stream: on, name, of: Leftover::Kernel(kernel) });
                result
            }
            Item::Function(call) => self.run_kernel(&call.reads, &call.writes, &mut call.body(), &who),
        };
        if let Err((range, fault)) = result {
            self.work_faults.push(WorkFault { stream: on, name, range, fault });
            if let Ok(device) = self.device_mut(device) {
                device.fault_untold = true;
            }
        }
    }

    fn touch(&self, ptr: DevicePtr, bytes: u64, write: bool, who: &Toucher) -> Result<Vec<Piece>, Fault> {
        let faulted = |fault| (Some(Touched { ptr, bytes, write }), fault);
        self.memory.resolve(ptr, bytes, who).map_err(faulted)
    }

    fn run_copy(&mut self, dst: End, src: End, bytes: u64, who: &Toucher) -> Result<(), Fault> {
        let src = self.resolve_end(src, bytes, false, who)?;
        let dst = self.resolve_end(dst, bytes, true, who)?;
        let mut buffer = vec![0; CHUNK.min(usize::try_from(bytes).unwrap_or(CHUNK))];
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(buffer.len() as u64) as usize;
            let buffer = &mut buffer[..part];
            match &src {
                Resolved::Device(pieces) => self.memory.read(pieces, done, buffer),
                Resolved::Host(host) => host.read(done, buffer),
            }
            match &dst {
                Resolved::Device(pieces) => self.memory.write(pieces, done, buffer),
                Resolved::Host(host) => host.write(done, buffer),
            }
            done += part as u64;
        }
        Ok(())
    }

    fn resolve_end(&self, end: End, bytes: u64, write: bool, who: &Toucher) -> Result<Resolved, Fault> {
        match end {
            End::Device(ptr) => self.touch(ptr, bytes, write, who).map(Resolved::Device),
            End::Host(host) => Ok(Resolved::Host(host)),
        }
    }

    fn run_fill(&mut self, dst: DevicePtr, value: u8, bytes: u64, who: &Toucher) -> Result<(), Fault> {
        let pieces = self.touch(dst, bytes, true, who)?;
        self.memory.fill(&pieces, value);
        Ok(())
    }

    /// A kernel that a graph lets go: it is dropped when the lock is not held.
    pub(super) fn leave_kernel(&mut self, device: DeviceIndex, kernel: &SharedKernel) {
        let (stream, name) = (StreamHandle::default_of(device), lock(kernel).name);
        self.remains.push(Remains { stream, name, of: Leftover::Kernel(Arc::clone(kernel)) });
    }

    fn run_kernel(
        &mut self,
        reads: &[Access],
        writes: &[Access],
        body: &mut dyn FnMut(&mut dyn KernelMemory),
        who: &Toucher,
    ) -> Result<(), Fault> {
        let reads: Result<Vec<_>, Fault> =
            reads.iter().map(|a| Ok((self.touch(a.ptr, a.bytes, false, who)?, a.bytes))).collect();
        let writes: Result<Vec<_>, Fault> =
            writes.iter().map(|a| Ok((self.touch(a.ptr, a.bytes, true, who)?, a.bytes))).collect();
        let (reads, writes) = (reads?, writes?);
        let ran = as_work(|| run_body(&mut self.memory, reads, writes, body));
        ran.map_err(|message| (None, AccessFault::Panicked(message)))
    }
}
