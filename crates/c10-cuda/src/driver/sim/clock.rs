//! Virtual time: what work costs, and when it ends.
//!
//! The end of an item is settled when it is issued: it begins when the items before it on its stream, and the
//! events that the stream waits for, are over, and not before the host issues it. So times depend on the
//! program alone, never on when the simulator runs the item. A synchronising call moves the host's time on.

/// What the host spends on issuing one item, in nanoseconds.
const ISSUE_NS: u64 = 500;
/// What any copy, fill or kernel costs, in nanoseconds.
const START_NS: u64 = 2_000;
/// Bytes in a nanosecond to and from the memory of a device.
const DEVICE_BYTES_PER_NS: u64 = 2_000;
/// Bytes in a nanosecond between the host and a device, or between devices.
const LINK_BYTES_PER_NS: u64 = 25;

/// The host's time and the rules of cost.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now_ns: u64,
}

impl Clock {
    /// The host issues an item: the time at which it does.
    pub(super) fn issue(&mut self) -> u64 {
        self.now_ns = self.now_ns.saturating_add(ISSUE_NS);
        self.now_ns
    }

    /// The host has waited until then.
    pub(super) fn waited_until(&mut self, ns: u64) {
        self.now_ns = self.now_ns.max(ns);
    }

    pub(super) const fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

/// The cost of moving `bytes` bytes within a device.
pub(super) const fn device_cost(bytes: u64) -> u64 {
    START_NS + bytes / DEVICE_BYTES_PER_NS
}

/// The cost of moving `bytes` bytes over a link.
pub(super) const fn link_cost(bytes: u64) -> u64 {
    START_NS + bytes / LINK_BYTES_PER_NS
}
