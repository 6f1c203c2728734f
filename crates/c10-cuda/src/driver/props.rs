//! What a device is: [`DeviceProps`], [`MemoryInfo`], [`MemPoolInfo`].

/// A device's name, size and limits (`cudaDeviceProp`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProps {
    /// Its name.
    pub name: String,
    /// Its memory, in bytes (`totalGlobalMem`).
    pub total_memory: u64,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// How many multiprocessors it has.
    pub multi_processor_count: u32,
    /// Threads in a warp.
    pub warp_size: u32,
}

/// Bytes of a device (`cuMemGetInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What the driver could still give out.
    pub free: u64,
    /// All there is.
    pub total: u64,
}

/// Bytes that a memory pool holds of its device (`cuMemPoolGetAttribute`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemPoolInfo {
    /// What is given out.
    pub used: u64,
    /// The most that was, since the peaks were last reset.
    pub used_peak: u64,
    /// All that it has from the device.
    pub reserved: u64,
    /// The most that it had.
    pub reserved_peak: u64,
}
