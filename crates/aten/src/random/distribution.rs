//! The distributions that are computed in `f64` whatever the element, one number at a time.
//!
//! Operators check the parameters; with others than named here the results are NaNs and infinities.

use std::f64::consts::PI;

use super::element::Real;
use super::generator::Draws;

impl Draws<'_> {
    /// A number in [0, 1) with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        f64::unit(self)
    }

    /// A number in [0, 1) with 24 random bits, from half as many words.
    #[inline]
    pub fn unit_f32(&mut self) -> f32 {
        f32::unit(self)
    }

    /// Whether an event of probability `p` comes about (`bernoulli_` with one probability, or with a tensor
    /// of `f64`).
    #[inline]
    pub fn bernoulli(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// As [`bernoulli`](Self::bernoulli), from a tensor of probabilities of any other type.
    #[inline]
    pub fn bernoulli_f32(&mut self, p: f32) -> bool {
        self.unit_f32() < p
    }

    /// A normal number. They are made in pairs by the transform of Box and Muller: every other call takes
    /// the one that waits in the generator.
    #[inline]
    pub fn normal(&mut self, mean: f64, std: f64) -> f64 {
        let standard = self.one_of_pair(|draws| {
            let (angle, radius) = (draws.unit(), draws.unit());
            let radius = (-2.0 * (-radius).ln_1p()).sqrt();
            let (sin, cos) = (2.0 * PI * angle).sin_cos();
            (radius * cos, radius * sin)
        });
        standard.mul_add(std, mean)
    }

    /// The exponential of a normal number.
    #[inline]
    pub fn log_normal(&mut self, mean: f64, std: f64) -> f64 {
        self.normal(mean, std).exp()
    }

    /// The time to the next of events that come `rate` times in a unit of time, `rate > 0`.
    #[inline]
    pub fn exponential(&mut self, rate: f64) -> f64 {
        -1.0 / rate * (-self.unit()).ln_1p()
    }

    /// The Cauchy distribution about `median`, half of it within `sigma > 0` of that.
    #[inline]
    pub fn cauchy(&mut self, median: f64, sigma: f64) -> f64 {
        sigma.mul_add((PI * (self.unit() - 0.5)).tan(), median)
    }

    /// How many trials it takes until an event of probability `p`, 0 < `p` < 1, comes about.
    #[inline]
    pub fn geometric(&mut self, p: f64) -> f64 {
        (self.unit().ln() / (-p).ln_1p()).ceil()
    }
}
