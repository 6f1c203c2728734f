//! [`InputMeta`]: what the gradient of a result must be like (`InputMetadata`).

use aten::{Dims, Tensor};
use c10_core::{Device, ScalarType};

use crate::saved::TensorMeta;

/// Sizes, dtype and device of a result, which its gradient has too.
#[derive(Clone, Debug)]
pub(crate) struct InputMeta {
    pub(crate) sizes: Dims,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
}

impl InputMeta {
    #[inline]
    pub(crate) fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes(), dtype: tensor.dtype(), device: tensor.device() }
    }

    /// Of a result that looks like this.
    pub(crate) fn like(meta: &TensorMeta) -> Self {
        Self { sizes: meta.sizes(), dtype: meta.dtype(), device: meta.device() }
    }

    /// Of a result that is undefined or no tensor.
    pub(crate) fn undefined() -> Self {
        Self { sizes: Dims::from(&[][..]), dtype: ScalarType::Float32, device: Device::CPU }
    }

    /// Whether a gradient is all that it is to be.
    #[inline]
    pub(crate) fn is_like(&self, tensor: &Tensor) -> bool {
        self.has_sizes_of(tensor) && tensor.dtype() == self.dtype && tensor.device() == self.device
    }

    #[inline]
    pub(crate) fn has_sizes_of(&self, tensor: &Tensor) -> bool {
        tensor.has_sizes(&self.sizes)
    }

    /// A gradient of zeros.
    pub(crate) fn zeros(&self) -> aten::Result<Tensor> {
        Tensor::zeros(&self.sizes, self.options())
    }

    fn options(&self) -> aten::TensorOptions {
        aten::TensorOptions::default().dtype(self.dtype).device(self.device)
    }
}
