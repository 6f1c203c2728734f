//! Learning rates that change from step to step (`torch.optim.lr_scheduler`).
//!
//! A scheduler sets the first learning rate when it is made, and each next one in [`Scheduler::step`], which is called
//! after the optimiser's. Like PyTorch's, it computes a rate from the one before, so that several can work on one
//! optimiser. What it starts from it reads when it is made.

mod step_lr;
mod factor;
mod cosine;
mod one_cycle;

pub use cosine::CosineAnnealingLr;
pub use factor::{ConstantLr, LinearLr, PolynomialLr};
pub use one_cycle::{Anneal, OneCycleConfig, OneCycleLr};
pub use step_lr::{ExponentialLr, LambdaLr, MultiStepLr, StepLr};

use std::fmt::Debug;

use aten::{Error, Result};

use super::Optimizer;

/// Changes the learning rates of an optimiser from step to step.
pub trait Scheduler: Debug {
    /// Sets the next learning rates.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the schedule is at its end or the optimiser
    /// has other groups than the scheduler was made for.
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;

    /// How many steps were made.
    fn steps(&self) -> u64;
}

/// The learning rates of all groups.
fn rates(optimizer: &dyn Optimizer) -> Result<Vec<f64>> {
    (0..optimizer.groups())
        .map(|group| {
            optimizer.lr(group).ok_or_else(|| Error::invalid_argument("the optimiser has no learning rate"))
        })
        .collect()
}

/// Sets the learning rate of each group from the one before.
fn change(optimizer: &mut dyn Optimizer, rate: impl Fn(usize, f64) -> f64) -> Result<()> {
    for (group, before) in rates(optimizer)?.into_iter().enumerate() {
        optimizer.set_setting(group, "lr", rate(group, before))?;
    }
    Ok(())
}

/// Refuses an optimiser with other groups.
fn check_groups(optimizer: &dyn Optimizer, known: usize) -> Result<()> {
    if optimizer.groups() == known {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the schedule was made for {known} groups, and the optimiser has {}",
        optimizer.groups()
    )))
}
