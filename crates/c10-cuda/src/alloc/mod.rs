//! The caching allocator.

mod stats;

pub use stats::DeviceStats;
