//! Losses of classes: which of several, or whether one applies.

use aten::tensor::{
    BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions, CrossEntropyLossOptions, NllLossNdOptions,
};
use aten::{Error, Result, Tensor};

use super::{Loss, Reduction};

/// The negative logarithm of the right class's share, of scores (`torch.nn.CrossEntropyLoss`). The target has class
/// numbers, or the share of each class.
#[derive(Clone, Debug)]
pub struct CrossEntropyLoss {
    /// How much each class counts.
    pub weight: Option<Tensor>,
    /// The class number that does not count.
    pub ignore_index: i64,
    /// What is done with the losses of the examples.
    pub reduction: Reduction,
    /// How much of the target goes to all classes alike.
    pub label_smoothing: f64,
}

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
}

impl Loss for CrossEntropyLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return Err(Error::invalid_argument(format!(
                "label_smoothing must be between 0.0 and 1.0. Got: {}",
                self.label_smoothing
            )));
        }
        let options = CrossEntropyLossOptions {
            weight: self.weight.as_ref(),
            reduction: self.reduction.number(),
            ignore_index: self.ignore_index,
            label_smoothing: self.label_smoothing,
        };
        input.cross_entropy_loss_with(target, options)
    }
}

/// The negative of the right class's element, of logarithms (`torch.nn.NLLLoss`).
#[derive(Clone, Debug)]
pub struct NllLoss {
    /// How much each class counts.
    pub weight: Option<Tensor>,
    /// The class number that does not count.
    pub ignore_index: i64,
    /// What is done with the losses of the examples.
    pub reduction: Reduction,
}

impl Default for NllLoss {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

impl Loss for NllLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let (weight, reduction) = (self.weight.as_ref(), self.reduction.number());
        input
            .nll_loss_nd_with(target, NllLossNdOptions { weight, reduction, ignore_index: self.ignore_index })
    }
}

/// The cross entropy of probabilities of one class (`torch.nn.BCELoss`).
#[derive(Clone, Debug, Default)]
pub struct BceLoss {
    /// How much each element counts.
    pub weight: Option<Tensor>,
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
}

impl Loss for BceLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let (weight, reduction) = (self.weight.as_ref(), self.reduction.number());
        input.binary_cross_entropy_with(target, BinaryCrossEntropyOptions { weight, reduction })
    }
}

/// The cross entropy of scores of one class (`torch.nn.BCEWithLogitsLoss`).
#[derive(Clone, Debug, Default)]
pub struct BceWithLogitsLoss {
    /// How much each element counts.
    pub weight: Option<Tensor>,
    /// How much more what applies counts than what does not.
    pub pos_weight: Option<Tensor>,
    /// What is done with the losses of the elements.
    pub reduction: Reduction,
}

impl Loss for BceWithLogitsLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let options = BinaryCrossEntropyWithLogitsOptions {
            weight: self.weight.as_ref(),
            pos_weight: self.pos_weight.as_ref(),
            reduction: self.reduction.number(),
        };
        input.binary_cross_entropy_with_logits_with(target, options)
    }
}
