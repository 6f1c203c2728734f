//! Schedules that multiply: [`StepLr`], [`MultiStepLr`], [`ExponentialLr`]; and [`LambdaLr`], by a function.

use std::fmt;

use aten::{Error, Result};

use super::{Scheduler, change, check_groups, rates};
use crate::optim::Optimizer;

/// Multiplies by `gamma` every so many steps (`StepLR`).
#[derive(Clone, Debug)]
pub struct StepLr {
    step_size: u64,
    gamma: f64,
    steps: u64,
}

impl StepLr {
    /// Every `step_size` steps.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when `step_size` is zero.
    pub fn new(step_size: u64, gamma: f64) -> Result<Self> {
        if step_size == 0 {
            return Err(Error::invalid_argument("a schedule changes every one step or more"));
        }
        Ok(Self { step_size, gamma, steps: 0 })
    }
}

impl Scheduler for StepLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let steps = self.steps + 1;
        if steps.is_multiple_of(self.step_size) {
            change(optimizer, |_, rate| rate * self.gamma)?;
        }
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Multiplies by `gamma` at given steps (`MultiStepLR`).
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    milestones: Vec<u64>,
    gamma: f64,
    steps: u64,
}

impl MultiStepLr {
    /// At these steps; one that is there twice counts twice.
    pub fn new(milestones: &[u64], gamma: f64) -> Self {
        Self { milestones: milestones.to_vec(), gamma, steps: 0 }
    }
}

impl Scheduler for MultiStepLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let steps = self.steps + 1;
        let times = self.milestones.iter().filter(|milestone| **milestone == steps).count();
        if times > 0 {
            change(optimizer, |_, rate| rate * self.gamma.powi(times as i32))?;
        }
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Multiplies by `gamma` at every step (`ExponentialLR`).
#[derive(Clone, Debug)]
pub struct ExponentialLr {
    gamma: f64,
    steps: u64,
}

impl ExponentialLr {
    /// By this factor.
    pub fn new(gamma: f64) -> Self {
        Self { gamma, steps: 0 }
    }
}

impl Scheduler for ExponentialLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        change(optimizer, |_, rate| rate * self.gamma)?;
        self.steps += 1;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Multiplies the first learning rate by a function of the number of steps (`LambdaLR`).
pub struct LambdaLr<F> {
    factor: F,
    first: Vec<f64>,
    steps: u64,
}

impl<F: Fn(u64) -> f64> LambdaLr<F> {
    /// By `factor`, beginning with that of no steps.
    ///
    /// # Errors
    /// When the optimiser has no learning rate, or refuses the first one.
    pub fn new(optimizer: &mut dyn Optimizer, factor: F) -> Result<Self> {
        let first = rates(optimizer)?;
        change(optimizer, |group, _| first[group] * factor(0))?;
        Ok(Self { factor, first, steps: 0 })
    }
}

impl<F: Fn(u64) -> f64> Scheduler for LambdaLr<F> {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        check_groups(optimizer, self.first.len())?;
        let steps = self.steps + 1;
        change(optimizer, |group, _| self.first[group] * (self.factor)(steps))?;
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

impl<F> fmt::Debug for LambdaLr<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LambdaLr")
            .field("first", &self.first)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
