//! [`TensorOptions`]: what a new tensor is made of.

use c10_core::{Device, Layout, MemoryFormat, ScalarType};

/// What a new tensor is made of (`c10::TensorOptions`). What is `None` is the operator's own choice: the
/// default dtype or that of another tensor, the CPU or that tensor's device.
///
/// ```
/// use aten::TensorOptions;
/// use c10_core::{Device, ScalarType};
///
/// let options = TensorOptions::from(ScalarType::Float64).device(Device::META);
/// assert_eq!(options.dtype, Some(ScalarType::Float64));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorOptions {
    /// The type of an element.
    pub dtype: Option<ScalarType>,
    /// How elements are laid out; [`Layout::Strided`] alone is implemented.
    pub layout: Option<Layout>,
    /// Where the elements are.
    pub device: Option<Device>,
    /// Page-locked memory of the host.
    pub pin_memory: Option<bool>,
    /// The order of the dimensions in memory.
    pub memory_format: Option<MemoryFormat>,
}

impl TensorOptions {
    /// With that dtype.
    #[must_use]
    pub fn dtype(self, dtype: impl Into<Option<ScalarType>>) -> Self {
        Self { dtype: dtype.into(), ..self }
    }

    /// On that device.
    #[must_use]
    pub fn device(self, device: impl Into<Option<Device>>) -> Self {
        Self { device: device.into(), ..self }
    }

    /// In that memory format.
    #[must_use]
    pub fn memory_format(self, format: impl Into<Option<MemoryFormat>>) -> Self {
        Self { memory_format: format.into(), ..self }
    }
}

impl From<ScalarType> for TensorOptions {
    fn from(dtype: ScalarType) -> Self {
        Self { dtype: Some(dtype), ..Self::default() }
    }
}

impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        Self { device: Some(device), ..Self::default() }
    }
}

impl From<(ScalarType, Device)> for TensorOptions {
    fn from((dtype, device): (ScalarType, Device)) -> Self {
        Self { dtype: Some(dtype), device: Some(device), ..Self::default() }
    }
}
