//! [`Adam`] and [`AdamW`]: steps scaled by running means of the gradient and of its square.

use aten::tensor::{AddcdivOptions, AddcmulOptions};
use aten::{Result, Tensor, TensorOptions};

use super::optimizer::RuleOptimizer;
use super::rule::{ParameterState, Rule, check_not_negative, out_of_range, prepared};

/// Steps scaled by running means, with what decays the weight in the gradient (`torch.optim.Adam`).
pub type Adam = RuleOptimizer<AdamRule>;

/// As [`Adam`], with weights that decay apart from the gradient (`torch.optim.AdamW`).
pub type AdamW = RuleOptimizer<AdamWRule>;

crate::options! {
    /// The settings of [`Adam`].
    pub struct AdamOptions {
        /// How far a step goes.
        lr: f64 = 1e-3,
        /// How much of the mean of gradients is kept.
        beta1: f64 = 0.9,
        /// How much of the mean of their squares is kept.
        beta2: f64 = 0.999,
        /// Is added to what a step is divided by.
        eps: f64 = 1e-8,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// Divides by the largest mean of squares so far.
        amsgrad: bool = false,
        /// Goes up the gradient.
        maximize: bool = false,
    }
}

crate::options! {
    /// The settings of [`AdamW`].
    pub struct AdamWOptions {
        /// How far a step goes.
        lr: f64 = 1e-3,
        /// How much of the mean of gradients is kept.
        beta1: f64 = 0.9,
        /// How much of the mean of their squares is kept.
        beta2: f64 = 0.999,
        /// Is added to what a step is divided by.
        eps: f64 = 1e-8,
        /// How much of the parameter goes with each step, times the learning rate.
        weight_decay: f64 = 1e-2,
        /// Divides by the largest mean of squares so far.
        amsgrad: bool = false,
        /// Goes up the gradient.
        maximize: bool = false,
    }
}

/// The rule of [`Adam`].
#[derive(Debug)]
pub struct AdamRule;

/// The rule of [`AdamW`].
#[derive(Debug)]
pub struct AdamWRule;

const SLOTS: &[&str] = &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

impl Rule for AdamRule {
    type Options = AdamOptions;

    const SLOTS: &'static [&'static str] = SLOTS;

    fn check(options: &AdamOptions) -> Result<()> {
        check(options)
    }

    fn update(
        options: &AdamOptions,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()> {
        let gradient = prepared(gradient, parameter, options.maximize, options.weight_decay)?;
        update(options, parameter, &gradient, state)
    }
}

impl Rule for AdamWRule {
    type Options = AdamWOptions;

    const SLOTS: &'static [&'static str] = SLOTS;

    fn check(options: &AdamWOptions) -> Result<()> {
        check(&shared(options))
    }

    fn update(
        options: &AdamWOptions,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()> {
        parameter.mul_scalar_(1.0 - options.lr * options.weight_decay)?;
        let gradient = prepared(gradient, parameter, options.maximize, 0.0)?;
        update(&shared(options), parameter, &gradient, state)
    }
}

/// The settings that both have.
fn shared(options: &AdamWOptions) -> AdamOptions {
    let AdamWOptions { lr, beta1, beta2, eps, weight_decay, amsgrad, maximize } = *options;
    AdamOptions { lr, beta1, beta2, eps, weight_decay, amsgrad, maximize }
}

fn check(options: &AdamOptions) -> Result<()> {
    let AdamOptions { lr, beta1, beta2, eps, weight_decay, .. } = *options;
    check_not_negative(&[("lr", lr), ("eps", eps), ("weight_decay", weight_decay)])?;
    match [("beta1", beta1), ("beta2", beta2)].iter().find(|(_, beta)| !(0.0..1.0).contains(beta)) {
        Some((name, beta)) => Err(out_of_range(name, *beta)),
        None => Ok(()),
    }
}

fn update(
    options: &AdamOptions,
    parameter: &Tensor,
    gradient: &Tensor,
    state: &mut ParameterState,
) -> Result<()> {
    let AdamOptions { lr, beta1, beta2, eps, amsgrad, .. } = *options;
    let zeros = || parameter.zeros_like(TensorOptions::default());
    let (mean, square) = (state.slot_or(0, zeros)?, state.slot_or(1, zeros)?);
    mean.lerp_scalar_(gradient, 1.0 - beta1)?;
    square.mul_scalar_(beta2)?.addcmul_with_(
        gradient,
        gradient,
        AddcmulOptions { value: (1.0 - beta2).into() },
    )?;
    // The means begin at zero: what they lack of that is made up for.
    let steps = state.steps as f64;
    let (of_mean, of_square) = (1.0 - beta1.powf(steps), 1.0 - beta2.powf(steps));
    let largest = if amsgrad {
        let largest = state.slot_or(2, zeros)?;
        largest.copy_(&largest.maximum(&square)?)?;
        largest
    } else {
        square
    };
    let divisor = largest.sqrt()?;
    divisor.div_scalar_(of_square.sqrt())?.add_scalar_(eps)?;
    parameter.addcdiv_with_(&mean, &divisor, AddcdivOptions { value: (-lr / of_mean).into() }).map(drop)
}
