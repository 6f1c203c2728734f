//! [`SimConfig`]: what a simulated machine is like.

use super::fault::FaultPlan;

/// The memory of a device unless said otherwise: 80 GiB.
pub const DEFAULT_BYTES: u64 = 80 << 30;
/// The addresses that a device has for reservations unless said otherwise: 4 TiB.
pub const DEFAULT_RESERVABLE_BYTES: u64 = 4 << 40;
/// The limit of pinned host memory unless said otherwise: 64 GiB.
pub const DEFAULT_PINNED_BYTES: u64 = 64 << 30;
/// How many devices a machine can have: beyond, addresses would pass 2^53 and not survive JSON.
pub const MAX_DEVICES: usize = 32;

/// When the work on streams runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// When the program says so ([`complete_stream`](super::SimDriver::complete_stream),
    /// [`complete_all`](super::SimDriver::complete_all)) or makes a synchronising call.
    #[default]
    Manual,
    /// At once, when it is issued.
    Eager,
    /// At times that the seed decides: every driver call may let some streams run a few items.
    Seeded(u64),
}

/// A simulated machine: its devices, its schedule, its faults.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The memory of each device, in bytes: 2^63 - 1 where it says more. At most [`MAX_DEVICES`] of them.
    pub devices: Vec<u64>,
    /// The addresses that each device has for [`reserve`](crate::driver::Driver::reserve), in bytes; at most 2^46.
    pub reservable_bytes: u64,
    /// When the work on streams runs.
    pub completion: Completion,
    /// Which calls fail.
    pub faults: FaultPlan,
    /// The limit of pinned host memory, in bytes.
    pub pinned_bytes: u64,
    /// Whether devices can reach each other's memory.
    pub peers: bool,
    /// Whether [`free`](crate::driver::Driver::free) waits for all work of the memory's device, as CUDA's does. Off,
    /// it completes nothing: work that is under way and uses the memory faults, and what an allocator decides
    /// depends on queries and synchronising calls alone.
    pub free_waits: bool,
    /// Whether memory pools make the most of a device, as CUDA's do: a range takes hardly more than was asked for, and
    /// a request that finds no room has freed ranges of the pool given back to the device first, and where that is
    /// too little runs what their frees come behind. Off, a range takes whole units, and what is freed and not
    /// trimmed stays taken: what an allocator decides depends on its own trims and waits alone.
    pub frugal_pools: bool,
    /// Whether uses of memory are looked at for races, and for memory that is not there: see
    /// [`SimDriver::races`](super::SimDriver::races). It changes nothing else.
    pub race_detector: bool,
    /// How many calls, and how many items of work, are kept for
    /// [`take_calls`](super::SimDriver::take_calls) and [`take_work`](super::SimDriver::take_work), the newest
    /// winning; 0 keeps none.
    pub log_calls: usize,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            devices: vec![DEFAULT_BYTES],
            reservable_bytes: DEFAULT_RESERVABLE_BYTES,
            completion: Completion::Manual,
            faults: FaultPlan::default(),
            pinned_bytes: DEFAULT_PINNED_BYTES,
            peers: true,
            free_waits: true,
            frugal_pools: false,
            race_detector: false,
            log_calls: 0,
        }
    }
}

impl SimConfig {
    /// One device of `bytes` bytes.
    pub fn with_bytes(bytes: u64) -> Self {
        Self { devices: vec![bytes], ..Self::default() }
    }

    /// `count` devices of `bytes` bytes each.
    pub fn with_devices(count: usize, bytes: u64) -> Self {
        Self { devices: vec![bytes; count], ..Self::default() }
    }

    /// Runs work when `completion` says.
    #[must_use]
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// Fails what `faults` says.
    #[must_use]
    pub fn faults(mut self, faults: FaultPlan) -> Self {
        self.faults = faults;
        self
    }

    /// Looks for races.
    #[must_use]
    pub fn race_detector(mut self) -> Self {
        self.race_detector = true;
        self
    }

    /// Has pools make the most of the devices.
    #[must_use]
    pub fn frugal_pools(mut self) -> Self {
        self.frugal_pools = true;
        self
    }

    /// Keeps the last `calls` calls.
    #[must_use]
    pub fn log_calls(mut self, calls: usize) -> Self {
        self.log_calls = calls;
        self
    }
}
