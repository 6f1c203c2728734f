//! [`Event`]: a place in the work of a stream. A plain value, which owns nothing.
//!
//! It names what [`DeviceHooks::create_event`](crate::hooks::DeviceHooks::create_event) made; whoever made
//! it ends it by `destroy_event`. An owner that does so by itself belongs to the device type's own crate.

use std::fmt;

use crate::device::{Device, DeviceIndex, DeviceType};

/// The number of an event on its device; what it means is for the device type's own crate to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// What an event can be used for (`c10::EventFlag`, `cudaEventCreateWithFlags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EventFlags {
    /// The time between two such events can be asked.
    pub timing: bool,
    /// Waiting for it on the host sleeps and does not spin.
    pub blocking: bool,
    /// It can be opened by other processes.
    pub interprocess: bool,
}

/// A place in the work of a device, which streams and the host can wait for (`c10::Event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    device_type: DeviceType,
    device_index: DeviceIndex,
    id: EventId,
    flags: EventFlags,
}

impl Event {
    /// The event `id` of a device.
    pub const fn new(
        device_type: DeviceType,
        device_index: DeviceIndex,
        id: EventId,
        flags: EventFlags,
    ) -> Self {
        Self { device_type, device_index, id, flags }
    }

    /// The device in whose work it is a place.
    pub const fn device(self) -> Device {
        Device::new(self.device_type, self.device_index)
    }

    /// The type of that device.
    pub const fn device_type(self) -> DeviceType {
        self.device_type
    }

    /// The index of that device.
    pub const fn device_index(self) -> DeviceIndex {
        self.device_index
    }

    /// Its number on the device.
    pub const fn id(self) -> EventId {
        self.id
    }

    /// What it was made for.
    pub const fn flags(self) -> EventFlags {
        self.flags
    }
}

impl fmt::Display for Event {
    /// `event 3 on device cuda:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} on device {}", self.id.0, self.device())
    }
}
