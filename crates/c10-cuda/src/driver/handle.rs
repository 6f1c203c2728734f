//! What a driver gives out: plain values with a device in them.

use std::fmt;

use c10_core::DeviceIndex;

/// An address of device memory (`CUdeviceptr`). The host must not dereference it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// No memory.
    pub const NULL: Self = Self(0);

    /// Whether it is null.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` bytes on.
    ///
    /// # Panics
    /// When that is beyond the address space.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.checked_add(bytes).expect("the end of a live range is an address"))
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:#x}", self.0))
    }
}

/// A stream of a device (`CUstream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamHandle {
    /// The device whose work it orders.
    pub device: DeviceIndex,
    /// The driver's value; 0 is the device's default stream, 2 the calling thread's.
    pub raw: u64,
}

impl StreamHandle {
    /// The default stream of a device.
    pub const fn default_of(device: DeviceIndex) -> Self {
        Self { device, raw: 0 }
    }

    /// The default stream that a device has for the calling thread (`CU_STREAM_PER_THREAD`).
    pub const fn per_thread_default(device: DeviceIndex) -> Self {
        Self { device, raw: 2 }
    }
}

/// An event of a device (`CUevent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventHandle {
    /// The device on whose streams it can be recorded.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
}

/// What a capture recorded (`CUgraph`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphHandle {
    /// The device of the stream that began the capture.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
}

/// A graph that can be launched (`CUgraphExec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphExecHandle {
    /// The device of the graph that it was made of.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
}

/// A loaded image of kernels (`CUmodule`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleHandle {
    /// The device that it was loaded on.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
}

/// A kernel of a module (`CUfunction`): as good as its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionHandle {
    /// The device of its module.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
}

/// A node of a graph (`CUgraphNode`): the driver's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// Physical memory of a device (`CUmemGenericAllocationHandle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhysHandle {
    /// Where the memory is.
    pub device: DeviceIndex,
    /// The driver's value.
    pub raw: u64,
    /// Its size.
    pub bytes: u64,
}

/// A reserved range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VaRange {
    /// Its first address.
    pub base: DevicePtr,
    /// Its length.
    pub bytes: u64,
}
