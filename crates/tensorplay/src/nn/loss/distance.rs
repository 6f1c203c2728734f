//! Losses of distance between numbers.

use aten::tensor::{HuberLossOptions, L1LossOptions, MseLossOptions, SmoothL1LossOptions};
use aten::{Result, Tensor};

use super::{Loss, Reduction};

/// The square of the difference (`torch.nn.MSELoss`).
#[derive(Clone, Copy, Debug, Default)]
pub struct MseLoss {
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
}

impl Loss for MseLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        input.mse_loss_with(target, MseLossOptions { reduction: self.reduction.number() })
    }
}

/// The size of the difference (`torch.nn.L1Loss`).
#[derive(Clone, Copy, Debug, Default)]
pub struct L1Loss {
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
}

impl Loss for L1Loss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        input.l1_loss_with(target, L1LossOptions { reduction: self.reduction.number() })
    }
}

/// The size of the difference, less half of `beta`, and its square over `2 beta` below it (`torch.nn.SmoothL1Loss`).
#[derive(Clone, Copy, Debug)]
pub struct SmoothL1Loss {
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
    /// Where the one becomes the other.
    pub beta: f64,
}

impl Default for SmoothL1Loss {
    fn default() -> Self {
        Self { reduction: Reduction::Mean, beta: 1.0 }
    }
}

impl Loss for SmoothL1Loss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let options = SmoothL1LossOptions { reduction: self.reduction.number(), beta: self.beta };
        input.smooth_l1_loss_with(target, options)
    }
}

/// Half the square of the difference, and a straight line above `delta` (`torch.nn.HuberLoss`).
#[derive(Clone, Copy, Debug)]
pub struct HuberLoss {
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
    /// Where the one becomes the other.
    pub delta: f64,
}

impl Default for HuberLoss {
    fn default() -> Self {
        Self { reduction: Reduction::Mean, delta: 1.0 }
    }
}

impl Loss for HuberLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let options = HuberLossOptions { reduction: self.reduction.number(), delta: self.delta };
        input.huber_loss_with(target, options)
    }
}
