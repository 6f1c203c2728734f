//! [`CosineAnnealingLr`]: down and up again along half waves.

use std::f64::consts::PI;

use aten::{Error, Result};

use super::{Scheduler, change, check_groups, rates};
use crate::optim::Optimizer;

/// From the first learning rate to the least along half a wave, and back, and so on (`CosineAnnealingLR`).
#[derive(Clone, Debug)]
pub struct CosineAnnealingLr {
    half_wave: u64,
    least: f64,
    first: Vec<f64>,
    steps: u64,
}

impl CosineAnnealingLr {
    /// Down to `least` (`eta_min`) over `half_wave` steps (`T_max`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when there are no such steps, or the optimiser
    /// has no learning rate.
    pub fn new(optimizer: &dyn Optimizer, half_wave: u64, least: f64) -> Result<Self> {
        if half_wave == 0 || half_wave > u64::MAX / 4 {
            return Err(Error::invalid_argument(format!("half a wave cannot be {half_wave} steps long")));
        }
        Ok(Self { half_wave, least, first: rates(optimizer)?, steps: 0 })
    }
}

impl Scheduler for CosineAnnealingLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        check_groups(optimizer, self.first.len())?;
        let steps = self.steps + 1;
        let (length, least) = (self.half_wave as f64, self.least);
        let wave = |at: u64| 1.0 + (PI * at as f64 / length).cos();
        // One step after the least rate, which says nothing of the next.
        let is_after_least =
            steps > self.half_wave && (steps - 1 - self.half_wave).is_multiple_of(2 * self.half_wave);
        change(optimizer, |group, rate| {
            if is_after_least {
                rate + (self.first[group] - least) * (1.0 - (PI / length).cos()) / 2.0
            } else {
                wave(steps) / wave(steps - 1) * (rate - least) + least
            }
        })?;
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
