//! [`GroupNorm`]: groups of channels of each example to mean zero and variance one.

use aten::tensor::GroupNormOptions;
use aten::{Error, Result, Tensor, TensorOptions};

use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What a [`GroupNorm`] takes beside groups and channels.
#[derive(Clone, Copy, Debug)]
pub struct GroupNormConfig {
    /// Is added to the variance. By default 1e-5.
    pub eps: f64,
    /// Has a learnt weight and bias. By default it does.
    pub affine: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for GroupNormConfig {
    fn default() -> Self {
        Self { eps: 1e-5, affine: true, tensor: TensorOptions::default() }
    }
}

/// Normalisation over groups of channels (`torch.nn.GroupNorm`).
#[derive(Debug)]
pub struct GroupNorm {
    /// `[channels]`, ones at first.
    pub weight: Option<Parameter>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Parameter>,
    num_groups: i64,
    eps: f64,
}

impl GroupNorm {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the groups do not divide the channels, or
    /// there are none; when there is no memory.
    pub fn new(num_groups: i64, num_channels: i64) -> Result<Self> {
        Self::with(num_groups, num_channels, GroupNormConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(num_groups: i64, num_channels: i64, config: GroupNormConfig) -> Result<Self> {
        // Differs from PyTorch: there no channels are refused by the first input.
        if num_groups <= 0 || num_channels <= 0 || num_channels % num_groups != 0 {
            return Err(Error::invalid_argument(format!(
                "{num_groups} groups do not divide {num_channels} channels"
            )));
        }
        let learnt = |tensor: Result<Tensor>| config.affine.then(|| Parameter::new(&tensor?)).transpose();
        Ok(Self {
            weight: learnt(Tensor::ones(&[num_channels], config.tensor))?,
            bias: learnt(Tensor::zeros(&[num_channels], config.tensor))?,
            num_groups,
            eps: config.eps,
        })
    }
}

impl Module for GroupNorm {
    crate::parts!(weight, bias);
}

impl Forward for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        let options = GroupNormOptions { weight, bias, eps: self.eps, ..Default::default() };
        input.group_norm_with(self.num_groups, options)
    }
}
