//! [`LayerNorm`]: each example to mean zero and variance one over its last dimensions.

use aten::tensor::LayerNormOptions;
use aten::{Result, Tensor, TensorOptions};

use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What a [`LayerNorm`] takes beside its shape.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormConfig {
    /// Is added to the variance. By default 1e-5.
    pub eps: f64,
    /// Has a learnt weight. By default it does.
    pub elementwise_affine: bool,
    /// Has a learnt bias beside the weight. By default it does.
    pub bias: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for LayerNormConfig {
    fn default() -> Self {
        Self { eps: 1e-5, elementwise_affine: true, bias: true, tensor: TensorOptions::default() }
    }
}

/// Normalisation over the last dimensions (`torch.nn.LayerNorm`).
#[derive(Debug)]
pub struct LayerNorm {
    /// Of the normalized shape, ones at first.
    pub weight: Option<Parameter>,
    /// Of the normalized shape, zeros at first.
    pub bias: Option<Parameter>,
    normalized_shape: Vec<i64>,
    eps: f64,
}

impl LayerNorm {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// When a size is negative or there is no memory.
    pub fn new(normalized_shape: &[i64]) -> Result<Self> {
        Self::with(normalized_shape, LayerNormConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(normalized_shape: &[i64], config: LayerNormConfig) -> Result<Self> {
        let learnt = |tensor: Result<Tensor>, is_there: bool| {
            (config.elementwise_affine && is_there).then(|| Parameter::new(&tensor?)).transpose()
        };
        Ok(Self {
            weight: learnt(Tensor::ones(normalized_shape, config.tensor), true)?,
            bias: learnt(Tensor::zeros(normalized_shape, config.tensor), config.bias)?,
            normalized_shape: normalized_shape.to_vec(),
            eps: config.eps,
        })
    }
}

impl Module for LayerNorm {
    crate::parts!(weight, bias);
}

impl Forward for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        let options = LayerNormOptions { weight, bias, eps: self.eps, ..Default::default() };
        input.layer_norm_with(&self.normalized_shape, options)
    }
}
