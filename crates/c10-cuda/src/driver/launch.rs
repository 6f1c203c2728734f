//! [`LaunchConfig`]: in how many threads a kernel runs; [`KernelLaunch`]: a kernel with a body of the host's.

use std::fmt;

use super::handle::DevicePtr;

/// In how many threads a function of a module runs, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Blocks, in x, y and z; none is 0.
    pub grid: [u32; 3],
    /// Threads of a block, in x, y and z; none is 0.
    pub block: [u32; 3],
    /// Shared memory of a block that is sized at launch, in bytes.
    pub shared_bytes: u32,
}

/// A range of device memory that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Where it begins.
    pub ptr: DevicePtr,
    /// Its length.
    pub bytes: u64,
}

/// What a kernel's body sees of the device: its declared ranges, by number.
pub trait KernelMemory {
    /// Copies out of the `index`th declared read, from `offset` bytes on.
    ///
    /// # Panics
    /// When that leaves the range. A panic in a kernel is an illegal access of the device.
    fn read(&self, index: usize, offset: u64, out: &mut [u8]);

    /// Copies into the `index`th declared write, from `offset` bytes on.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]);
}

/// The body of a kernel, run on the host in the stream's order, by whichever thread makes the stream go on.
///
/// It must not call a driver, which refuses with [`Status::NotPermitted`](super::Status::NotPermitted), and must
/// not wait for a lock that anybody holds while calling one: it would wait for itself. (CUDA asks the same of host
/// functions.) What it owns may be anything, memory of an allocator too: it is dropped under no lock of this crate,
/// once it has run: when the thread next leaves the allocator, waits, launches or lets work run, or in
/// [`settle`](super::Driver::settle).
pub type KernelBody = Box<dyn FnMut(&mut dyn KernelMemory) + Send>;

/// A kernel to be issued.
pub struct KernelLaunch {
    /// For logs and reports.
    pub name: &'static str,
    /// What it reads.
    pub reads: Vec<Access>,
    /// What it writes; what it reads and writes stands in both.
    pub writes: Vec<Access>,
    /// What it does.
    pub body: KernelBody,
}

impl fmt::Debug for KernelLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelLaunch")
            .field("name", &self.name)
            .field("reads", &self.reads)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}
