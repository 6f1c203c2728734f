//! [`OneCycleLr`]: up to the highest learning rate, then down to almost nothing, with momentum the other way round.

use std::f64::consts::PI;

use aten::{Error, Result};

use super::{Scheduler, check_groups};
use crate::optim::Optimizer;

/// How a value goes from one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anneal {
    /// Along half a wave.
    #[default]
    Cosine,
    /// Along a line.
    Linear,
}

impl Anneal {
    fn at(self, from: f64, to: f64, part: f64) -> f64 {
        match self {
            Self::Cosine => to + (from - to) / 2.0 * ((PI * part).cos() + 1.0),
            Self::Linear => (to - from) * part + from,
        }
    }
}

/// What an [`OneCycleLr`] takes beside the highest rate and the number of steps.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleConfig {
    /// Which part of the steps goes up. By default 0.3.
    pub pct_start: f64,
    /// How values go from one to another.
    pub anneal: Anneal,
    /// Momentum, or `beta1`, goes down as the rate goes up. By default it does.
    pub cycle_momentum: bool,
    /// The least momentum. By default 0.85.
    pub base_momentum: f64,
    /// The first and last momentum. By default 0.95.
    pub max_momentum: f64,
    /// The highest rate divided by the first. By default 25.
    pub div_factor: f64,
    /// The first rate divided by the last. By default 1e4.
    pub final_div_factor: f64,
    /// Comes down in two parts, first as fast as it went up.
    pub three_phase: bool,
}

impl Default for OneCycleConfig {
    fn default() -> Self {
        Self {
            pct_start: 0.3,
            anneal: Anneal::Cosine,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }
}

/// Up to the highest learning rate, then down to almost nothing (`OneCycleLR`).
#[derive(Clone, Debug)]
pub struct OneCycleLr {
    /// The step at which each part ends, the values that it goes between, and the momenta.
    phases: Vec<Phase>,
    anneal: Anneal,
    /// The setting that has the momentum, if it is changed.
    momentum: Option<&'static str>,
    groups: usize,
    total_steps: u64,
    steps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    end: f64,
    rates: (f64, f64),
    momenta: (f64, f64),
}

impl OneCycleLr {
    /// As the config says, for all groups alike.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for no steps, a part that is not between zero and
    /// one, and an optimiser without momentum when that is to change.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        max_lr: f64,
        total_steps: u64,
        config: OneCycleConfig,
    ) -> Result<Self> {
        if total_steps == 0 || !(0.0..=1.0).contains(&config.pct_start) {
            return Err(Error::invalid_argument(format!(
                "no cycle has {total_steps} steps, {} of which go up",
                config.pct_start
            )));
        }
        let momentum = config.cycle_momentum.then(|| momentum_of(optimizer)).transpose()?;
        let made = Self {
            phases: phases(max_lr, total_steps, config),
            anneal: config.anneal,
            momentum,
            groups: optimizer.groups(),
            total_steps,
            steps: 0,
        };
        made.set(optimizer, 0)?;
        Ok(made)
    }

    fn set(&self, optimizer: &mut dyn Optimizer, steps: u64) -> Result<()> {
        let at = steps as f64;
        let last = self.phases.len() - 1;
        let index = self.phases[..last].iter().position(|phase| at <= phase.end).unwrap_or(last);
        let start = if index == 0 { 0.0 } else { self.phases[index - 1].end };
        let phase = self.phases[index];
        let length = phase.end - start;
        let part = if length == 0.0 { 1.0 } else { (at - start) / length };
        for group in 0..optimizer.groups() {
            optimizer.set_setting(group, "lr", self.anneal.at(phase.rates.0, phase.rates.1, part))?;
            if let Some(name) = self.momentum {
                optimizer.set_setting(group, name, self.anneal.at(phase.momenta.0, phase.momenta.1, part))?;
            }
        }
        Ok(())
    }
}

fn phases(max_lr: f64, total_steps: u64, config: OneCycleConfig) -> Vec<Phase> {
    let first = max_lr / config.div_factor;
    let last = first / config.final_div_factor;
    let (high, low) = (config.max_momentum, config.base_momentum);
    let (steps, up) = (total_steps as f64, config.pct_start * total_steps as f64);
    let mut phases = vec![Phase { end: up - 1.0, rates: (first, max_lr), momenta: (high, low) }];
    if config.three_phase {
        phases.push(Phase { end: 2.0 * up - 2.0, rates: (max_lr, first), momenta: (low, high) });
        phases.push(Phase { end: steps - 1.0, rates: (first, last), momenta: (high, high) });
    } else {
        phases.push(Phase { end: steps - 1.0, rates: (max_lr, last), momenta: (low, high) });
    }
    phases
}

fn momentum_of(optimizer: &dyn Optimizer) -> Result<&'static str> {
    let has = |name: &&'static str| optimizer.setting(0, name).is_some();
    ["beta1", "momentum"].into_iter().find(has).ok_or_else(|| {
        Error::invalid_argument(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
        )
    })
}

impl Scheduler for OneCycleLr {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        check_groups(optimizer, self.groups)?;
        let steps = self.steps + 1;
        if steps > self.total_steps {
            return Err(Error::invalid_argument(format!(
                "step {steps} of a schedule that has {}",
                self.total_steps
            )));
        }
        self.set(optimizer, steps)?;
        self.steps = steps;
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
