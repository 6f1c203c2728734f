//! [`Witness`]: what a driver that watches its program is told beyond its calls.

use super::handle::{DevicePtr, StreamHandle};

/// The side of a driver that looks for misuse of memory: the simulator's. Allocators tell it what they do with what
/// the driver has given them, since that shows in no call.
pub trait Witness {
    /// Whether it wants to know of blocks. The answer stays the same.
    fn watches(&self) -> bool;

    /// An allocator has handed out a block, for a stream.
    fn handed_out(&self, ptr: DevicePtr, bytes: u64, stream: StreamHandle);

    /// It has taken the block back: nothing that is issued from here on uses it.
    fn taken_back(&self, ptr: DevicePtr);
}
