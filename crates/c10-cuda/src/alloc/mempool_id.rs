//! [`MempoolId`]: which private pool; [`PoolFilter`]: what goes to it.

use std::fmt;
use std::thread::{self, ThreadId};

use crate::driver::StreamHandle;

/// The name of a private pool (`MempoolId_t`): graphs have (n, 0), the pools that a program makes (0, n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MempoolId {
    /// Not 0 for the pool of a graph.
    pub first: u64,
    /// Not 0 for a pool that a program made.
    pub second: u64,
}

impl MempoolId {
    /// The device's own pool, which is no private one.
    pub const DEFAULT: Self = Self { first: 0, second: 0 };

    /// A name from its two numbers.
    pub const fn new(first: u64, second: u64) -> Self {
        Self { first, second }
    }
}

impl fmt::Display for MempoolId {
    /// `(first, second)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.first, self.second)
    }
}

/// Which allocations go to a private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFilter {
    /// All of the device.
    All,
    /// Those that this thread makes.
    Thread(ThreadId),
    /// Those for this stream.
    Stream(StreamHandle),
    /// Those for streams that take part in the capture with this number
    /// ([`CaptureInfo::id`](crate::driver::CaptureInfo::id)).
    Capture(u64),
}

impl PoolFilter {
    /// Those that the calling thread makes.
    pub fn this_thread() -> Self {
        Self::Thread(thread::current().id())
    }
}
