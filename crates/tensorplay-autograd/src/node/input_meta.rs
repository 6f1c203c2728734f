//! [`InputMeta`]: what the gradient of a result must be like (`InputMetadata`).

use aten::{Dims, Tensor};
use c10_core::{Device, ScalarType, Stream};

use crate::engine::current_stream;
use crate::saved::TensorMeta;

/// Sizes, dtype and device of a result, which its gradient has too, and the stream on which that is computed.
#[derive(Clone, Debug)]
pub(crate) struct InputMeta {
    pub(crate) sizes: Dims,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
    /// The stream that was current on the device, if it has streams.
    pub(crate) stream: Option<Stream>,
}

impl InputMeta {
    #[inline]
    pub(crate) fn of(tensor: &Tensor) -> Self {
        let device = tensor.device();
        Self { sizes: tensor.sizes(), dtype: tensor.dtype(), device, stream: current_stream(device) }
    }

    /// Of a result that looks like this.
    pub(crate) fn like(meta: &TensorMeta) -> Self {
        let device = meta.device();
        Self { sizes: meta.sizes(), dtype: meta.dtype(), device, stream: current_stream(device) }
    }

    /// Of a result that is undefined or no tensor.
    pub(crate) fn undefined() -> Self {
        Self { sizes: Dims::from(&[][..]), dtype: ScalarType::Float32, device: Device::CPU, stream: None }
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
