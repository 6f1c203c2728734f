//! [`RmsProp`]: steps divided by the root of a running mean of squares.

use aten::tensor::{AddOptions, AddcdivOptions, AddcmulOptions};
use aten::{Result, Tensor, TensorOptions};

use super::optimizer::RuleOptimizer;
use super::rule::{ParameterState, Rule, check_not_negative, prepared};

/// Steps divided by the root of a running mean of squares (`torch.optim.RMSprop`).
pub type RmsProp = RuleOptimizer<RmsPropRule>;

crate::options! {
    /// The settings of [`RmsProp`].
    pub struct RmsPropOptions {
        /// How far a step goes.
        lr: f64 = 1e-2,
        /// How much of the mean is kept.
        alpha: f64 = 0.99,
        /// Is added to what a step is divided by.
        eps: f64 = 1e-8,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// How much of the step before is kept.
        momentum: f64 = 0.0,
        /// Divides by the deviation, not by the size.
        centered: bool = false,
        /// Goes up the gradient.
        maximize: bool = false,
    }
}

/// The rule of [`RmsProp`].
#[derive(Debug)]
pub struct RmsPropRule;

impl Rule for RmsPropRule {
    type Options = RmsPropOptions;

    const SLOTS: &'static [&'static str] = &["square_avg", "momentum_buffer", "grad_avg"];

    fn check(options: &RmsPropOptions) -> Result<()> {
        let RmsPropOptions { lr, alpha, eps, weight_decay, momentum, .. } = *options;
        check_not_negative(&[
            ("lr", lr),
            ("alpha", alpha),
            ("eps", eps),
            ("weight_decay", weight_decay),
            ("momentum", momentum),
        ])
    }

    fn update(
        options: &RmsPropOptions,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()> {
        let RmsPropOptions { lr, alpha, eps, weight_decay, momentum, centered, maximize } = *options;
        let gradient = prepared(gradient, parameter, maximize, weight_decay)?;
        let zeros = || parameter.zeros_like(TensorOptions::default());
        let square = state.slot_or(0, zeros)?;
        square.mul_scalar_(alpha)?.addcmul_with_(
            &gradient,
            &gradient,
            AddcmulOptions { value: (1.0 - alpha).into() },
        )?;
        let divisor = if centered {
            let mean = state.slot_or(2, zeros)?;
            mean.lerp_scalar_(&gradient, 1.0 - alpha)?;
            let variance = square.addcmul_with(&mean, &mean, AddcmulOptions { value: (-1.0).into() })?;
            variance.sqrt_()?;
            variance
        } else {
            square.sqrt()?
        };
        divisor.add_scalar_(eps)?;
        if momentum > 0.0 {
            let buffer = state.slot_or(1, zeros)?;
            buffer.mul_scalar_(momentum)?.addcdiv_(&gradient, &divisor)?;
            return parameter.add_with_(&buffer, AddOptions { alpha: (-lr).into() }).map(drop);
        }
        parameter.addcdiv_with_(&gradient, &divisor, AddcdivOptions { value: (-lr).into() }).map(drop)
    }
}
