//! [`RmsNorm`]: each example divided by the root of its mean square.

use aten::tensor::RmsNormOptions;
use aten::{Result, Tensor, TensorOptions};

use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What an [`RmsNorm`] takes beside its shape.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormConfig {
    /// Is added to the mean square. By default the smallest step from one of the input's dtype.
    pub eps: Option<f64>,
    /// Has a learnt weight. By default it does.
    pub elementwise_affine: bool,
    /// Dtype and device of the weight.
    pub tensor: TensorOptions,
}

impl Default for RmsNormConfig {
    fn default() -> Self {
        Self { eps: None, elementwise_affine: true, tensor: TensorOptions::default() }
    }
}

/// Division by the root of the mean square over the last dimensions (`torch.nn.RMSNorm`).
#[derive(Debug)]
pub struct RmsNorm {
    /// Of the normalized shape, ones at first.
    pub weight: Option<Parameter>,
    normalized_shape: Vec<i64>,
    eps: Option<f64>,
}

impl RmsNorm {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// When a size is negative or there is no memory.
    pub fn new(normalized_shape: &[i64]) -> Result<Self> {
        Self::with(normalized_shape, RmsNormConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(normalized_shape: &[i64], config: RmsNormConfig) -> Result<Self> {
        let ones = || Parameter::new(&Tensor::ones(normalized_shape, config.tensor)?);
        Ok(Self {
            weight: config.elementwise_affine.then(ones).transpose()?,
            normalized_shape: normalized_shape.to_vec(),
            eps: config.eps,
        })
    }
}

impl Module for RmsNorm {
    crate::parts!(weight);
}

impl Forward for RmsNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let options = RmsNormOptions { weight: self.weight.as_deref(), eps: self.eps };
        input.rms_norm_with(&self.normalized_shape, options)
    }
}
