//! [`KlDivLoss`]: how far one distribution is from another.

use aten::tensor::KlDivOptions;
use aten::{Error, Result, Tensor};

use super::{Loss, Reduction};

/// What [`KlDivLoss`] does with the losses of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KlReduction {
    /// They are given back as they are.
    None,
    /// The mean over elements, which is not the divergence: PyTorch's default.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// The sum, divided by the first size: the divergence (`batchmean`).
    BatchMean,
}

/// The divergence of Kullback and Leibler, of logarithms of probabilities (`torch.nn.KLDivLoss`).
#[derive(Clone, Copy, Debug, Default)]
pub struct KlDivLoss {
    /// What is done with the losses of the elements.
    pub reduction: KlReduction,
    /// The target is logarithms too.
    pub log_target: bool,
}

impl Loss for KlDivLoss {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let loss = |reduction: Reduction| {
            input.kl_div_with(
                target,
                KlDivOptions { reduction: reduction.number(), log_target: self.log_target },
            )
        };
        match self.reduction {
            KlReduction::None => loss(Reduction::None),
            KlReduction::Mean => loss(Reduction::Mean),
            KlReduction::Sum => loss(Reduction::Sum),
            KlReduction::BatchMean => {
                let batch = input.sizes().first().copied().ok_or_else(|| {
                    Error::shape("a mean over the batch takes one dimension or more").with_tensors([input])
                })?;
                loss(Reduction::Sum)?.div_scalar(batch)
            }
        }
    }
}
