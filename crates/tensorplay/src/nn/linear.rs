//! [`Linear`]: `y = x Wᵀ + b`.

use aten::tensor::LinearOptions;
use aten::{Result, Tensor, TensorOptions};

use super::init;
use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What a [`Linear`] takes beside its sizes.
#[derive(Clone, Copy, Debug)]
pub struct LinearConfig {
    /// Adds a learnt bias. By default it does.
    pub bias: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for LinearConfig {
    fn default() -> Self {
        Self { bias: true, tensor: TensorOptions::default() }
    }
}

/// `y = x Wᵀ + b` over the last dimension (`torch.nn.Linear`).
#[derive(Debug)]
pub struct Linear {
    /// `[out_features, in_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// With a bias.
    ///
    /// # Errors
    /// When a size is negative or there is no memory.
    pub fn new(in_features: i64, out_features: i64) -> Result<Self> {
        Self::with(in_features, out_features, LinearConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(in_features: i64, out_features: i64, config: LinearConfig) -> Result<Self> {
        let bias = config.bias.then_some(out_features);
        let (weight, bias) = init::linear_parameters(&[out_features, in_features], bias, config.tensor)?;
        Ok(Self { weight, bias })
    }
}

impl Module for Linear {
    crate::parts!(weight, bias);
}

impl Forward for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.linear_with(&self.weight, LinearOptions { bias: self.bias.as_deref() })
    }
}
