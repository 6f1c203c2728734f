//! The negative logarithm of the likelihood of target classes.

use c10_core::{bf16, f16};

use super::reduce::{RealElement, Reduced};
use super::scan::Split;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::math::Float;
use crate::ops::Output;
use crate::tensor::{Fresh, Tensor, access};

/// The classes of places, the weights of classes, and the class that does not count.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) classes: Vec<i64>,
    pub(crate) weights: Option<Vec<f64>>,
    pub(crate) ignored: i64,
}

impl Targets {
    /// Refuses a class that there is not, before anything is written.
    pub(crate) fn check(&self, count: usize) -> Result<()> {
        match self.classes.iter().find(|&&class| class != self.ignored && !(0..count as i64).contains(&class))
        {
            None => Ok(()),
            Some(class) => Err(Error::index(format!("Target {class} is out of bounds."))),
        }
    }

    /// The class of place `i` and its weight, unless it does not count.
    fn at(&self, i: usize) -> Option<(usize, f64)> {
        let class = self.classes[i];
        let weight = |class: usize| self.weights.as_ref().map_or(1.0, |weights| weights[class]);
        (class != self.ignored).then(|| (class as usize, weight(class as usize)))
    }

    /// Calls `f` with each place that counts, where its element is in `(samples, classes, places)`, and its weight.
    fn for_each(&self, (samples, classes, places): Split, mut f: impl FnMut(usize, usize, f64)) {
        for i in 0..samples * places {
            if let Some((class, weight)) = self.at(i) {
                f(i, (i / places * classes + class) * places + i % places, weight);
            }
        }
    }
}

/// The loss of each place.
pub(crate) fn losses(input: &Tensor, out: &Output<'_>, shape: Split, targets: &Targets) -> Result<()> {
    dispatch!(input.dtype(), "nll_loss_out_frame", [f16, bf16, f32, f64], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            out.fill(T::default());
            targets.for_each(shape, |place, element, weight| {
                out[place] = T::narrow(-x[element].widen() * <<T as RealElement>::Real as Float>::of(weight));
            });
            Ok(())
        })
    })
}

/// The sum of losses, and that of weights.
pub(crate) fn loss_sum(input: &Tensor, shape: Split, targets: &Targets) -> Result<(f64, f64)> {
    dispatch!(input.dtype(), "nll_loss_out_frame", [f16, bf16, f32, f64], T => {
        access([input], [], Fresh::Yes, |[x], []| {
            let x = x.slice::<T>()?;
            let mut sums = (0.0, 0.0);
            targets.for_each(shape, |_, element, weight| {
                sums.0 -= Float::wide(x[element].widen()) * weight;
                sums.1 += weight;
            });
            Ok(sums)
        })
    })
}

/// The gradient: at each target `−weight` times that of the place, or of all if there is one, and `share`.
pub(crate) fn gradient(
    grad: &Tensor,
    out: &Output<'_>,
    shape: Split,
    targets: &Targets,
    share: f64,
) -> Result<()> {
    dispatch!(grad.dtype(), "nll_loss_backward_out_frame", [f16, bf16, f32, f64], T => {
        access([grad], [out.tensor()], out.fresh(), |[grad], [out]| {
            let (grad, out) = (grad.slice::<T>()?, out.slice::<T>()?);
            out.fill(T::default());
            targets.for_each(shape, |place, element, weight| {
                let grad = if grad.len() == 1 { grad[0] } else { grad[place] };
                out[element] = T::narrow(grad.widen() * <<T as RealElement>::Real as Float>::of(-weight * share));
            });
            Ok(())
        })
    })
}
