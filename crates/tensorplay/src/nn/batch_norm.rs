//! [`BatchNorm`]: each channel to mean zero and variance one, over the batch or by what was seen in training.

use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::ScalarType;
use tensorplay_autograd::no_grad;

use super::module::{Forward, Module};
use super::parameter::{Buffer, Parameter, Training};

/// What a [`BatchNorm`] takes beside its channels.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormConfig {
    /// Is added to the variance. By default 1e-5.
    pub eps: f64,
    /// How much of the running statistics each batch replaces; `None` keeps the mean of all batches. By default 0.1.
    pub momentum: Option<f64>,
    /// Has a learnt weight and bias. By default it does.
    pub affine: bool,
    /// Keeps running statistics, and uses them when it is not being trained. By default it does.
    pub track_running_stats: bool,
    /// Dtype and device of parameters and statistics.
    pub tensor: TensorOptions,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        Self {
            eps: 1e-5,
            momentum: Some(0.1),
            affine: true,
            track_running_stats: true,
            tensor: TensorOptions::default(),
        }
    }
}

/// Batch normalisation of inputs with `N` dimensions beside batch and channels.
#[derive(Debug)]
pub struct BatchNorm<const N: usize> {
    /// `[channels]`, ones at first.
    pub weight: Option<Parameter>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Parameter>,
    /// `[channels]`, zeros at first.
    pub running_mean: Option<Buffer>,
    /// `[channels]`, ones at first.
    pub running_var: Option<Buffer>,
    /// How many batches the running statistics have seen.
    pub num_batches_tracked: Option<Buffer>,
    training: Training,
    eps: f64,
    momentum: Option<f64>,
}

/// For `[batch, channels]` and `[batch, channels, length]` (`torch.nn.BatchNorm1d`).
pub type BatchNorm1d = BatchNorm<1>;
/// For `[batch, channels, height, width]` (`torch.nn.BatchNorm2d`).
pub type BatchNorm2d = BatchNorm<2>;
/// For `[batch, channels, depth, height, width]` (`torch.nn.BatchNorm3d`).
pub type BatchNorm3d = BatchNorm<3>;

impl<const N: usize> BatchNorm<N> {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// When `num_features` is negative or there is no memory.
    pub fn new(num_features: i64) -> Result<Self> {
        Self::with(num_features, BatchNormConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(num_features: i64, config: BatchNormConfig) -> Result<Self> {
        let (options, sizes) = (config.tensor, &[num_features]);
        let learnt = |tensor: Result<Tensor>| config.affine.then(|| Parameter::new(&tensor?)).transpose();
        let tracked =
            |tensor: Result<Tensor>| config.track_running_stats.then(|| tensor.map(Buffer::new)).transpose();
        Ok(Self {
            weight: learnt(Tensor::ones(sizes, options))?,
            bias: learnt(Tensor::zeros(sizes, options))?,
            running_mean: tracked(Tensor::zeros(sizes, options))?,
            running_var: tracked(Tensor::ones(sizes, options))?,
            num_batches_tracked: tracked(Tensor::zeros(&[], options.dtype(ScalarType::Int64)))?,
            training: Training::default(),
            eps: config.eps,
            momentum: config.momentum,
        })
    }

    /// How much of the running statistics the next batch replaces.
    fn next_momentum(&self) -> Result<f64> {
        match (&self.num_batches_tracked, self.momentum) {
            (Some(count), None) if self.training.0 => Ok(1.0 / (count.item()?.to::<f64>()? + 1.0)),
            (_, momentum) => Ok(momentum.unwrap_or(0.0)),
        }
    }
}

impl<const N: usize> Module for BatchNorm<N> {
    crate::parts!(weight, bias, running_mean, running_var, num_batches_tracked, training);
}

impl<const N: usize> Forward for BatchNorm<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let rank = input.rank();
        if rank != N + 2 && !(N == 1 && rank == 2) {
            let wanted =
                if N == 1 { "2 or 3 dimensions".to_owned() } else { format!("{} dimensions", N + 2) };
            return Err(Error::shape(format!("batch norm takes an input of {wanted}"))
                .with_operator("batch_norm")
                .with_tensors([input]));
        }
        let by_batch = self.training.0 || self.running_mean.is_none();
        if by_batch {
            check_more_than_one(input)?;
        }
        let momentum = self.next_momentum()?;
        let output = input.batch_norm(
            self.weight.as_deref(),
            self.bias.as_deref(),
            self.running_mean.as_deref(),
            self.running_var.as_deref(),
            by_batch,
            momentum,
            self.eps,
            true,
        )?;
        if let (true, Some(count)) = (self.training.0, &self.num_batches_tracked) {
            no_grad(|| count.add_scalar_(1).map(drop))?;
        }
        Ok(output)
    }
}

/// One value for a channel has no variance.
fn check_more_than_one(input: &Tensor) -> Result<()> {
    let sizes = input.sizes();
    if sizes.iter().enumerate().any(|(dim, &size)| dim != 1 && size != 1) {
        return Ok(());
    }
    Err(Error::invalid_argument("batch norm in training needs more than one value for each channel")
        .with_operator("batch_norm")
        .with_tensors([input]))
}
