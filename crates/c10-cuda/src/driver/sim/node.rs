//! [`Node`]: what a capture made of an item that was issued, kept so that it can run any number of times.

use std::mem::discriminant;
use std::sync::{Arc, Mutex};

use c10_core::DeviceIndex;

use super::host_bytes::{HostPlace, HostRange};
use super::module::{FunctionCall, touched};
use super::report::Touched;
use super::slab::Id;
use super::work::{End, Item};
use crate::driver::{DevicePtr, KernelLaunch, NodeId};

/// A kernel with a body of the host's, that a graph and its launches have in common.
pub(super) type SharedKernel = Arc<Mutex<KernelLaunch>>;

/// A node of a graph.
#[derive(Debug)]
pub(super) struct Node {
    /// Nodes of the same graph, before it.
    pub(super) dependencies: Vec<NodeId>,
    /// The device of the stream that it was issued on.
    pub(super) device: DeviceIndex,
    pub(super) work: NodeWork,
    /// What running it costs, in nanoseconds.
    pub(super) cost_ns: u64,
}

/// What a node does.
#[derive(Debug)]
pub(super) enum NodeWork {
    Copy {
        dst: NodeEnd,
        src: NodeEnd,
        bytes: u64,
    },
    Fill {
        dst: DevicePtr,
        value: u8,
        bytes: u64,
    },
    Kernel(SharedKernel),
    Function(Arc<FunctionCall>),
    /// Makes memory of an address of the graph's.
    Alloc {
        at: u64,
        bytes: u64,
    },
    /// Ends that, for this graph's memory or another's.
    Free {
        at: u64,
    },
    /// Records an event.
    Record(Id),
}

/// One end of a copy that may run.
#[derive(Clone, Copy, Debug)]
pub(super) enum NodeEnd {
    Device(DevicePtr),
    Host(HostPlace),
}

impl NodeEnd {
    pub(super) fn of(end: &End) -> Self {
        match end {
            End::Device(ptr) => Self::Device(*ptr),
            End::Host(host) => Self::Host(host.place()),
        }
    }

    /// The end of one run of the copy; `claim` promises that the host's memory is there until then.
    fn end(self, claim: &dyn Fn(HostPlace) -> HostRange) -> End {
        match self {
            Self::Device(ptr) => End::Device(ptr),
            Self::Host(place) => End::Host(claim(place)),
        }
    }
}

impl NodeWork {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Copy { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Kernel(kernel) => lock(kernel).name,
            Self::Function(call) => call.name,
            Self::Alloc { .. } => "malloc_async",
            Self::Free { .. } => "free_async",
            Self::Record(_) => "record",
        }
    }

    /// The item of one run.
    pub(super) fn item(&self, claim: &dyn Fn(HostPlace) -> HostRange) -> Item {
        match self {
            Self::Copy { dst, src, bytes } => {
                Item::Copy { dst: dst.end(claim), src: src.end(claim), bytes: *bytes }
            }
            Self::Fill { dst, value, bytes } => Item::Fill { dst: *dst, value: *value, bytes: *bytes },
            Self::Kernel(kernel) => Item::Shared(Arc::clone(kernel)),
            Self::Function(call) => Item::Function(Arc::clone(call)),
            Self::Alloc { .. } => Item::Alloc,
            Self::Free { .. } => Item::Free,
            Self::Record(_) => Item::Record,
        }
    }

    /// What it uses, of devices and of the host.
    pub(super) fn touched(&self) -> (Vec<Touched>, Vec<Touched>) {
        match self {
            Self::Copy { dst, src, bytes } => {
                let (mut device, mut host) = (Vec::new(), Vec::new());
                for (end, write) in [(src, false), (dst, true)] {
                    match end {
                        NodeEnd::Device(ptr) => device.push(Touched { ptr: *ptr, bytes: *bytes, write }),
                        NodeEnd::Host(place) => {
                            let ptr = DevicePtr(place.address());
                            host.push(Touched { ptr, bytes: *bytes, write });
                        }
                    }
                }
                (device, host)
            }
            Self::Fill { dst, bytes, .. } => {
                (vec![Touched { ptr: *dst, bytes: *bytes, write: true }], Vec::new())
            }
            Self::Kernel(kernel) => {
                let kernel = lock(kernel);
                (touched(&kernel.reads, &kernel.writes).collect(), Vec::new())
            }
            Self::Function(call) => (call.touched().collect(), Vec::new()),
            Self::Alloc { .. } | Self::Free { .. } | Self::Record(_) => (Vec::new(), Vec::new()),
        }
    }

    /// Whether it is about memory of graphs.
    pub(super) const fn is_memory(&self) -> bool {
        matches!(self, Self::Alloc { .. } | Self::Free { .. })
    }
}

impl Node {
    /// Whether another can stand in its place: it does the same kind of thing, on the same device, behind the same
    /// nodes.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let places = |node: &Self| node.dependencies.iter().map(|node| node.index()).collect::<Vec<_>>();
        self.device == other.device
            && discriminant(&self.work) == discriminant(&other.work)
            && places(self) == places(other)
    }
}

/// A kernel's lock. Its body's panics are caught, so that it is not poisoned by those; and it is whole between any two
/// runs.
pub(super) fn lock(kernel: &SharedKernel) -> std::sync::MutexGuard<'_, KernelLaunch> {
    kernel.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
