//! Schedules of a factor that changes over the first steps: [`LinearLr`], [`ConstantLr`], [`PolynomialLr`].

use aten::{Error, Result};

use super::{Scheduler, change};
use crate::optim::Optimizer;

/// From one factor to another along a line, over so many steps (`LinearLR`).
#[derive(Clone, Debug)]
pub struct LinearLr {
    start_factor: f64,
    end_factor: f64,
    total_steps: u64,
    steps: u64,
}

impl LinearLr {
    /// From `start_factor` to `end_factor` times the learning rate over `total_steps` steps.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the first factor is not above zero and at
    /// most one, or the other is not between zero and one.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        start_factor: f64,
        end_factor: f64,
        total_steps: u64,
    ) -> Result<Self> {
        if !(start_factor > 0.0 && start_factor <= 1.0 && (0.0..=1.0).contains(&end_factor)) {
            return Err(Error::invalid_argument(format!(
                "a learning rate does not go from {start_factor} to {end_factor} of itself"
            )));
        }
        change(optimizer, |_, rate| rate * start_factor)?;
        Ok(Self { start_factor, end_factor, total_steps, steps: 0 })
    }
}

impl Scheduler for LinearLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let steps = self.steps + 1;
        if steps <= self.total_steps {
            let change_of_factor = self.end_factor - self.start_factor;
            let before = self.total_steps as f64 * self.start_factor + (steps - 1) as f64 * change_of_factor;
            change(optimizer, |_, rate| rate * (1.0 + change_of_factor / before))?;
        }
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// A part of the learning rate for so many steps, then all of it (`ConstantLR`).
#[derive(Clone, Debug)]
pub struct ConstantLr {
    factor: f64,
    total_steps: u64,
    steps: u64,
}

impl ConstantLr {
    /// `factor` times the learning rate for `total_steps` steps.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the factor is not above zero and at most
    /// one.
    pub fn new(optimizer: &mut dyn Optimizer, factor: f64, total_steps: u64) -> Result<Self> {
        if !(factor > 0.0 && factor <= 1.0) {
            return Err(Error::invalid_argument(format!("{factor} is no part of a learning rate")));
        }
        change(optimizer, |_, rate| rate * factor)?;
        Ok(Self { factor, total_steps, steps: 0 })
    }
}

impl Scheduler for ConstantLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let steps = self.steps + 1;
        if steps == self.total_steps {
            change(optimizer, |_, rate| rate * (1.0 / self.factor))?;
        }
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Down to zero over so many steps, along a power of what is left of them (`PolynomialLR`).
#[derive(Clone, Debug)]
pub struct PolynomialLr {
    total_steps: u64,
    power: f64,
    steps: u64,
}

impl PolynomialLr {
    /// Over `total_steps` steps.
    pub fn new(total_steps: u64, power: f64) -> Self {
        Self { total_steps, power, steps: 0 }
    }
}

impl Scheduler for PolynomialLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let steps = self.steps + 1;
        if steps <= self.total_steps {
            let total = self.total_steps as f64;
            let left = (1.0 - steps as f64 / total) / (1.0 - (steps - 1) as f64 / total);
            change(optimizer, |_, rate| rate * left.powf(self.power))?;
        }
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
