//! Optimisers, schedules of their learning rates, and clipping of gradients (`torch.optim`).
//!
//! - [`Optimizer`]: parameters in groups, each with options; `step` changes the parameters in place by their gradients.
//! - [`Sgd`], [`Adam`], [`AdamW`], [`RmsProp`], [`Adagrad`]: each a [`Rule`] and its options. A rule of one's own becomes
//!   an optimiser in the same way, as [`RuleOptimizer`].
//! - [`schedule`]: learning rates that change from step to step.
//! - [`clip_grad_norm_`], [`clip_grad_value_`].

mod options;
mod rule;
mod optimizer;
mod state;
mod sgd;
mod adam;
mod rms_prop;
mod adagrad;
mod clip;
pub mod schedule;

pub use adagrad::{Adagrad, AdagradOptions, AdagradRule};
pub use adam::{Adam, AdamOptions, AdamRule, AdamW, AdamWOptions, AdamWRule};
pub use clip::{ClipOptions, clip_grad_norm_, clip_grad_value_};
pub use optimizer::{Group, Optimizer, RuleOptimizer};
pub use options::{Options, Setting};
pub use rms_prop::{RmsProp, RmsPropOptions, RmsPropRule};
pub use rule::{ParameterState, Rule};
pub use schedule::Scheduler;
pub use sgd::{Sgd, SgdOptions, SgdRule};
pub use state::OptimizerState;
