//! The caching allocator.

mod stats;
mod summary;

pub use stats::DeviceStats;
pub use summary::memory_summary;
