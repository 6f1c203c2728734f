//! [`Sgd`]: steps down the gradient, with momentum or without.

use aten::tensor::AddOptions;
use aten::{Error, Result, Tensor, TensorOptions};

use super::optimizer::RuleOptimizer;
use super::rule::{ParameterState, Rule, check_not_negative, prepared};

/// Steps down the gradient (`torch.optim.SGD`).
pub type Sgd = RuleOptimizer<SgdRule>;

crate::options! {
    /// The settings of [`Sgd`].
    pub struct SgdOptions {
        /// How far a step goes.
        lr: f64 = 1e-3,
        /// How much of the step before is kept.
        momentum: f64 = 0.0,
        /// How little of the gradient goes into the momentum.
        dampening: f64 = 0.0,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// Looks ahead along the momentum (Nesterov).
        nesterov: bool = false,
        /// Goes up the gradient.
        maximize: bool = false,
    }
}

/// The rule of [`Sgd`].
#[derive(Debug)]
pub struct SgdRule;

impl Rule for SgdRule {
    type Options = SgdOptions;

    const SLOTS: &'static [&'static str] = &["momentum_buffer"];

    fn check(options: &SgdOptions) -> Result<()> {
        let SgdOptions { lr, momentum, dampening, weight_decay, nesterov, .. } = *options;
        check_not_negative(&[("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)])?;
        if nesterov && (momentum <= 0.0 || dampening != 0.0) {
            return Err(Error::invalid_argument("Nesterov momentum requires a momentum and zero dampening"));
        }
        Ok(())
    }

    fn update(
        options: &SgdOptions,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()> {
        let SgdOptions { lr, momentum, dampening, weight_decay, nesterov, maximize } = *options;
        let mut step = prepared(gradient, parameter, maximize, weight_decay)?;
        if momentum != 0.0 {
            let is_first = state.slot(0).is_none();
            let buffer = state.slot_or(0, || step.empty_like(TensorOptions::default()))?;
            if is_first {
                buffer.copy_(&step)?;
            } else {
                buffer
                    .mul_scalar_(momentum)?
                    .add_with_(&step, AddOptions { alpha: (1.0 - dampening).into() })?;
            }
            step = if nesterov {
                step.add_with(&buffer, AddOptions { alpha: momentum.into() })?
            } else {
                buffer
            };
        }
        parameter.add_with_(&step, AddOptions { alpha: (-lr).into() }).map(drop)
    }
}
