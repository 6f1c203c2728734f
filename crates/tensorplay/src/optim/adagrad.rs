//! [`Adagrad`]: steps divided by the root of the sum of all squares so far.

use aten::tensor::AddcdivOptions;
use aten::{Result, Tensor, TensorOptions};

use super::optimizer::RuleOptimizer;
use super::rule::{ParameterState, Rule, check_not_negative, prepared};

/// Steps divided by the root of the sum of all squares so far (`torch.optim.Adagrad`).
pub type Adagrad = RuleOptimizer<AdagradRule>;

crate::options! {
    /// The settings of [`Adagrad`].
    pub struct AdagradOptions {
        /// How far a step goes.
        lr: f64 = 1e-2,
        /// How much shorter steps become from one to the next.
        lr_decay: f64 = 0.0,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// What the sums begin with.
        initial_accumulator_value: f64 = 0.0,
        /// Is added to what a step is divided by.
        eps: f64 = 1e-10,
        /// Goes up the gradient.
        maximize: bool = false,
    }
}

/// The rule of [`Adagrad`].
#[derive(Debug)]
pub struct AdagradRule;

impl Rule for AdagradRule {
    type Options = AdagradOptions;

    const SLOTS: &'static [&'static str] = &["sum"];

    fn check(options: &AdagradOptions) -> Result<()> {
        let AdagradOptions { lr, lr_decay, weight_decay, initial_accumulator_value, eps, .. } = *options;
        check_not_negative(&[
            ("lr", lr),
            ("lr_decay", lr_decay),
            ("weight_decay", weight_decay),
            ("initial_accumulator_value", initial_accumulator_value),
            ("eps", eps),
        ])
    }

    fn update(
        options: &AdagradOptions,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()> {
        let gradient = prepared(gradient, parameter, options.maximize, options.weight_decay)?;
        let sum = state.slot_or(0, || {
            parameter.full_like(options.initial_accumulator_value, TensorOptions::default())
        })?;
        sum.addcmul_(&gradient, &gradient)?;
        let divisor = sum.sqrt()?;
        divisor.add_scalar_(options.eps)?;
        let lr = options.lr / (1.0 + state.steps.saturating_sub(1) as f64 * options.lr_decay);
        parameter.addcdiv_with_(&gradient, &divisor, AddcdivOptions { value: (-lr).into() }).map(drop)
    }
}
