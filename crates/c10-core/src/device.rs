//! [`DeviceType`] and [`Device`]: which kind of device, and which one of its kind.
//!
//! PyTorch's text forms both ways: `cpu`, `cuda`, `cuda:1`. A device without an index means the current
//! one of its type.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// The number of a device among those of its type (`c10::DeviceIndex`), up to [`DEVICE_INDEX_MAX`].
pub type DeviceIndex = u8;

/// The largest index that PyTorch's signed byte has room for. No text names a device above it.
pub const DEVICE_INDEX_MAX: DeviceIndex = 127;

/// A kind of device (`c10::DeviceType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum DeviceType {
    /// The host.
    #[default]
    Cpu,
    /// NVIDIA's devices.
    Cuda,
    /// Shapes without memory.
    Meta,
    /// Apple's devices.
    Mps,
    /// Intel's devices.
    Xpu,
    /// A backend from outside the tree.
    PrivateUse1,
}

impl DeviceType {
    /// Every type, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Cuda, Self::Meta, Self::Mps, Self::Xpu, Self::PrivateUse1];

    /// PyTorch's lower-case name: `cpu`, `cuda`, `meta`, `mps`, `xpu`, `privateuseone`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Meta => "meta",
            Self::Mps => "mps",
            Self::Xpu => "xpu",
            Self::PrivateUse1 => "privateuseone",
        }
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DeviceType {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Parse`] when the text is none of the names.
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|t| t.name() == text)
            .ok_or_else(|| Error::unknown_name("device type", text, Self::ALL.into_iter().map(Self::name)))
    }
}

/// A device: its type and, unless it stands for the current one, its index (`c10::Device`).
///
/// It is one word, which is copied as such: each storage and each tensor has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(align(4))]
pub struct Device {
    device_type: DeviceType,
    index: Option<DeviceIndex>,
}

impl Device {
    /// The host.
    pub const CPU: Self = Self { device_type: DeviceType::Cpu, index: None };
    /// The device of tensors that have a shape and no memory.
    pub const META: Self = Self { device_type: DeviceType::Meta, index: None };

    /// The device `index` of a type.
    pub const fn new(device_type: DeviceType, index: DeviceIndex) -> Self {
        Self { device_type, index: Some(index) }
    }

    /// The current device of a type.
    pub const fn current(device_type: DeviceType) -> Self {
        Self { device_type, index: None }
    }

    /// The CUDA device `index`.
    pub const fn cuda(index: DeviceIndex) -> Self {
        Self::new(DeviceType::Cuda, index)
    }

    /// Which kind of device.
    pub const fn device_type(self) -> DeviceType {
        self.device_type
    }

    /// Which one of its kind; `None` stands for the current one.
    pub const fn index(self) -> Option<DeviceIndex> {
        self.index
    }

    /// Whether it is the host.
    pub const fn is_cpu(self) -> bool {
        matches!(self.device_type, DeviceType::Cpu)
    }

    /// Whether it is a CUDA device.
    pub const fn is_cuda(self) -> bool {
        matches!(self.device_type, DeviceType::Cuda)
    }
}

impl From<DeviceType> for Device {
    fn from(device_type: DeviceType) -> Self {
        Self::current(device_type)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            None => f.pad(self.device_type.name()),
            Some(index) => f.pad(&format!("{}:{index}", self.device_type.name())),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    /// `TYPE` or `TYPE:INDEX`, where the index is a decimal number without leading zeros, up to
    /// [`DEVICE_INDEX_MAX`].
    ///
    /// # Errors
    /// [`ErrorKind::Parse`], saying which part is wrong and why.
    fn from_str(text: &str) -> Result<Self> {
        let fail = |why: String| {
            Error::new(ErrorKind::Parse, format!("invalid device string {}: {why}", Error::quoted(text)))
        };
        let (name, index) = match text.split_once(':') {
            None => (text, None),
            Some((name, index)) => (name, Some(index)),
        };
        let device_type = name.parse::<DeviceType>().map_err(|e| fail(e.to_string()))?;
        let Some(digits) = index else { return Ok(Self::current(device_type)) };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(fail("the index is not a number".to_owned()));
        }
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(fail("the index has a leading zero".to_owned()));
        }
        match digits.parse::<DeviceIndex>() {
            Ok(index) if index <= DEVICE_INDEX_MAX => Ok(Self::new(device_type, index)),
            _ => Err(fail(format!("the index is above {DEVICE_INDEX_MAX}"))),
        }
    }
}
