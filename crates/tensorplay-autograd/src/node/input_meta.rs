//! [`InputMeta`]: what the gradient of a result must be like (`InputMetadata`).

use aten::{Dims, Tensor};
use c10_core::{Device, ScalarType};

/// Sizes, dtype and device of a result, which its gradient has too.
#[derive(Clone, Debug)]
pub(crate) struct InputMeta {
    pub(crate) sizes: Dims,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
}

impl InputMeta {
    pub(crate) fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes(), dtype: tensor.dtype(), device: tensor.device() }
    }

    /// Of a result that is undefined or no tensor.
    pub(crate) fn undefined() -> Self {
        Self { sizes: Dims::from(&[][..]), dtype: ScalarType::Float32, device: Device::CPU }
    }

    pub(crate) fn has_sizes_of(&self, tensor: &Tensor) -> bool {
        self.sizes[..] == tensor.sizes()[..]
    }

    /// A gradient of zeros.
    pub(crate) fn zeros(&self) -> aten::Result<Tensor> {
        Tensor::zeros(&self.sizes, self.options())
    }

    fn options(&self) -> aten::TensorOptions {
        aten::TensorOptions::default().dtype(self.dtype).device(self.device)
    }
}
