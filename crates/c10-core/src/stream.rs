//! [`Stream`]: a device and an id. A plain value, which owns nothing.

use std::fmt;

use crate::device::{Device, DeviceIndex, DeviceType};

/// The number of a stream on its device (`c10::StreamId`); 0 is the default stream. What the other
/// numbers mean is for the device type's own crate to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub i64);

/// An ordered queue of work on a device (`c10::Stream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    device_type: DeviceType,
    device_index: DeviceIndex,
    id: StreamId,
}

impl Stream {
    /// The stream `id` of a device.
    pub const fn new(device_type: DeviceType, device_index: DeviceIndex, id: StreamId) -> Self {
        Self { device_type, device_index, id }
    }

    /// The default stream of a device.
    pub const fn default_of(device_type: DeviceType, device_index: DeviceIndex) -> Self {
        Self::new(device_type, device_index, StreamId(0))
    }

    /// The device whose work it orders.
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
    pub const fn id(self) -> StreamId {
        self.id
    }

    /// Whether it is its device's default stream.
    pub const fn is_default(self) -> bool {
        self.id.0 == 0
    }
}

impl fmt::Display for Stream {
    /// PyTorch's form: `stream 3 on device cuda:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} on device {}", self.id.0, self.device())
    }
}
