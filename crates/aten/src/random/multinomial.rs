//! Categories drawn by their weights (`multinomial`).

use c10_core::{Error, Result};

use super::element::{Continuous, Real};
use super::generator::Draws;

/// Running sums of weights, from which categories are drawn with replacement.
#[derive(Clone, Debug)]
pub struct CumulativeDistribution<R>(Vec<R>);

impl<R: Real> CumulativeDistribution<R> {
    /// The distribution of one row of weights, which need not add up to 1.
    ///
    /// # Errors
    /// [`InvalidArgument`](c10_core::ErrorKind::InvalidArgument) when a weight is negative or not finite, or
    /// all are zero.
    pub fn try_new<T: Continuous<Op = R>>(weights: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut sum = R::default();
        let mut sums = Vec::new();
        for weight in weights {
            let weight = weight.to_op();
            let value: f64 = weight.to_f64();
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::invalid_argument(format!("no probability is {value:?}")));
            }
            sum += weight;
            sums.push(sum);
        }
        if sum.to_f64() <= 0.0 {
            return Err(Error::invalid_argument("the probabilities add up to nothing"));
        }
        sums.iter_mut().for_each(|running| *running /= sum);
        // Rounding must not leave a gap above the last.
        if let Some(last) = sums.last_mut() {
            *last = R::from_real(1.0);
        }
        Ok(Self(sums))
    }

    /// The next category.
    #[inline]
    pub fn sample(&self, draws: &mut Draws<'_>) -> usize {
        let at = draws.unit();
        self.0.partition_point(|&running| running.to_f64() < at)
    }
}

impl Draws<'_> {
    /// Fills `out` with the waiting times of rate 1 by which [`first_categories`] decides.
    pub fn fill_waiting_times<T: Continuous>(&mut self, out: &mut [T]) {
        out.fill_with(|| T::from_real(self.exponential(1.0)));
    }
}

/// Which `count` categories come about first, none twice, when each has waited its
/// [time](Draws::fill_waiting_times) divided by its weight.
pub fn first_categories<T: Continuous>(weights: &[T], waiting_times: &[T], count: usize) -> Vec<usize> {
    let speeds: Vec<f64> = weights
        .iter()
        .zip(waiting_times)
        .map(|(&weight, &time)| T::from_op(weight.to_op() / time.to_op()).to_op().to_f64())
        .collect();
    let mut order: Vec<usize> = (0..speeds.len()).collect();
    order.sort_by(|&a, &b| speeds[b].total_cmp(&speeds[a]));
    order.truncate(count);
    order
}
