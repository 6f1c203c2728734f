//! Losses: what is minimised (`torch.nn.…Loss`). Each has public fields with PyTorch's defaults.
//!
//! ```
//! use tensorplay::nn::loss::{CrossEntropyLoss, Loss};
//! use tensorplay::prelude::*;
//!
//! let loss = CrossEntropyLoss { label_smoothing: 0.1, ..Default::default() };
//! let (scores, classes) = (tensor![[2.0_f32, -1.0], [0.5, 0.5]]?, tensor![0_i64, 1]?);
//! assert_eq!(loss.forward(&scores, &classes)?.numel(), 1);
//! # Ok::<(), tensorplay::Error>(())
//! ```

mod class;
mod distance;
mod divergence;

pub use class::{BceLoss, BceWithLogitsLoss, CrossEntropyLoss, NllLoss};
pub use distance::{HuberLoss, L1Loss, MseLoss, SmoothL1Loss};
pub use divergence::{KlDivLoss, KlReduction};

use std::fmt::Debug;

use aten::{Result, Tensor};

/// A number to be minimised, from what a model gives and what it should.
pub trait Loss: Debug {
    /// The loss of `input` for `target`.
    ///
    /// # Errors
    /// When the operator behind it refuses sizes or dtypes.
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
}

/// What is done with the losses of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They are given back as they are.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// As operators take it.
    pub(super) fn number(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Mean => 1,
            Self::Sum => 2,
        }
    }
}
