//! Normalisation over layers, groups and batches.
//!
//! The gradient is one fused operator, which has [one itself](super::normalization_twice) but for groups: there it is
//! made of small ones where it is to have a gradient, statistics and all.

use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::ScalarType;

use super::shape::{mean_of, total_of};
use crate::mode::is_grad_enabled;

/// Gradients of the input, the weight and the bias.
pub(super) type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The input without mean and spread, and what it was scaled with.
pub(super) struct Normalized {
    pub(super) x: Tensor,
    pub(super) inverse: Tensor,
}

impl Normalized {
    /// With the statistics along `dims`, which are of the input.
    fn of(x: &Tensor, dims: &[i64], eps: f64) -> Result<Self> {
        let centred = (x - mean_of(x, dims)?)?;
        let inverse = mean_of(&(&centred * &centred)?, dims)?.add_scalar(eps)?.rsqrt()?;
        Ok(Self { x: (centred * &inverse)?, inverse })
    }

    /// With statistics along `dims` that are known. Where it is differentiated, they are functions of the input that
    /// have these values here.
    pub(super) fn with(x: &Tensor, [mean, inverse]: [&Tensor; 2], dims: &[i64]) -> Result<Self> {
        if !is_grad_enabled() {
            return Ok(Self { x: ((x - mean)? * inverse)?, inverse: inverse.clone() });
        }
        let own_mean = mean_of(x, dims)?;
        let mean = (&own_mean + (mean - own_mean.detach()?)?.detach()?)?;
        let centred = (x - mean)?;
        let spread = mean_of(&(&centred * &centred)?, dims)?;
        let rest = ((inverse * inverse)?.reciprocal()? - &spread)?.detach()?;
        let inverse = (spread + rest)?.rsqrt()?;
        Ok(Self { x: (centred * &inverse)?, inverse })
    }

    /// The gradient of what was normalised along `dims`.
    pub(super) fn backward(&self, grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
        let along = (&self.x * mean_of(&(grad * &self.x)?, dims)?)?;
        ((grad - mean_of(grad, dims)?)? - along)? * &self.inverse
    }
}

impl Normalized {
    /// What the gradient of a mean has for each of its elements.
    fn mean_backward(&self, grad: &Tensor) -> Result<Tensor> {
        grad.expand(&self.x.sizes())? / self.count()
    }

    /// The gradient of one over the spread.
    pub(super) fn inverse_backward(&self, grad: &Tensor) -> Result<Tensor> {
        ((grad * (&self.inverse * &self.inverse)?)? * &self.x)? / -self.count()
    }

    /// The number of elements that statistics are of.
    pub(super) fn count(&self) -> f64 {
        (self.x.numel() / self.inverse.numel().max(1)) as f64
    }
}

pub(super) fn weighed(grad: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or_else(|| Ok(grad.clone()), |weight| grad * weight)
}

pub(crate) fn layer_norm(
    grad: &Tensor,
    x: &Tensor,
    shape: &[i64],
    statistics: [&Tensor; 2],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    wants: [bool; 3],
) -> Result<Three> {
    let [mean, inverse] = constants(statistics)?;
    handles::NATIVE_LAYER_NORM_BACKWARD.call(grad, x, shape, &mean, &inverse, weight, bias, &wants)
}

/// Statistics that a fused gradient is told: what it makes of them it knows by itself when it is differentiated.
fn constants([mean, inverse]: [&Tensor; 2]) -> Result<[Tensor; 2]> {
    match is_grad_enabled() {
        true => Ok([mean.detach()?, inverse.detach()?]),
        false => Ok([mean.clone(), inverse.clone()]),
    }
}

/// `sizes` are those of the batch, the channels and the rest, and the number of groups. The statistics have gradients
/// too.
pub(crate) fn group_norm(
    grads: &[Option<Tensor>],
    x: &Tensor,
    weight: Option<&Tensor>,
    [mean, inverse]: [&Tensor; 2],
    sizes: [i64; 4],
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    let [batch, channels, rest, groups] = sizes;
    if let ([Some(grad), None, None], false) = (grads, is_grad_enabled()) {
        return handles::NATIVE_GROUP_NORM_BACKWARD
            .call(grad, x, mean, inverse, weight, batch, channels, rest, groups, &wants);
    }
    let shape = [batch, groups, channels / groups, rest];
    let grad = grads[0].as_ref().map(|grad| grad.reshape(&shape)).transpose()?;
    let weight = weight.map(|weight| weight.reshape(&[1, groups, channels / groups, 1])).transpose()?;
    let normalized = Normalized::of(&x.reshape(&shape)?, &[2, 3], eps)?;
    let summed = |each: &Tensor| total_of(each, &[0, 3])?.reshape(&[channels]);
    let of_input = || -> Result<Option<Tensor>> {
        let parts = [
            grad.as_ref().map(|grad| normalized.backward(&weighed(grad, weight.as_ref())?, &[2, 3])),
            grads[1].as_ref().map(|grad| normalized.mean_backward(&grad.reshape(&[batch, groups, 1, 1])?)),
            grads[2].as_ref().map(|grad| normalized.inverse_backward(&grad.reshape(&[batch, groups, 1, 1])?)),
        ];
        let mut sum: Option<Tensor> = None;
        for part in parts.into_iter().flatten() {
            sum = Some(match sum {
                None => part?,
                Some(sum) => sum.add(&part?)?,
            });
        }
        sum.map(|sum| sum.reshape(&x.sizes())).transpose()
    };
    Ok((
        if wants[0] { of_input()? } else { None },
        grad.as_ref().filter(|_| wants[1]).map(|grad| summed(&(grad * &normalized.x)?)).transpose()?,
        grad.as_ref().filter(|_| wants[2]).map(summed).transpose()?,
    ))
}

#[allow(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn batch_norm(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running: impl FnOnce() -> Result<[Option<Tensor>; 2]>,
    statistics: [&Tensor; 2],
    training: bool,
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    // Training changes them, and does not need them.
    let [running_mean, running_var] = if training { [None, None] } else { running()? };
    let [mean, inverse] = constants(statistics)?;
    handles::NATIVE_BATCH_NORM_BACKWARD.call(
        grad,
        x,
        weight,
        running_mean.as_ref(),
        running_var.as_ref(),
        Some(&mean),
        Some(&inverse),
        training,
        eps,
        &wants,
    )
}

/// There is no fused operator for this one. The root has a gradient too.
pub(crate) fn rms_norm(
    grads: &[Option<Tensor>],
    x: &Tensor,
    shape: &[i64],
    inverse: &Tensor,
    weight: Option<&Tensor>,
    eps: Option<f64>,
    wants: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let axis = x.rank() - shape.len();
    let (inner, outer): (Vec<i64>, Vec<i64>) = (0..x.rank() as i64).partition(|dim| *dim >= axis as i64);
    let inverse = match is_grad_enabled() {
        false => inverse.clone(),
        true => mean_of(&(x * x)?, &inner)?.add_scalar(rms_eps(x, eps))?.rsqrt()?,
    };
    let (scaled, inverse_conj) = ((x * &inverse)?.conj()?, inverse.conj()?);
    let grad = grads[0].as_ref();
    let through = |grad: &Tensor| -> Result<Tensor> {
        let grad = weighed(grad, weight.map(Tensor::conj).transpose()?.as_ref())?;
        let along = (&scaled * mean_of(&(&grad * &scaled)?, &inner)?)?;
        (grad - along)? * &inverse_conj
    };
    // Of the root at `1 / √(mean x² + eps)`: `−x / (n root³)`.
    let of_inverse = |grad: &Tensor| -> Result<Tensor> {
        let count: i64 = shape.iter().product();
        ((grad * (&inverse_conj * &inverse_conj)?)? * &scaled)? / -(count.max(1) as f64)
    };
    let input = match (grad, grads[1].as_ref()) {
        _ if !wants[0] => None,
        (Some(grad), Some(of_root)) => Some(through(grad)?.add(&of_inverse(of_root)?)?),
        (Some(grad), None) => Some(through(grad)?),
        (None, of_root) => of_root.map(of_inverse).transpose()?,
    };
    let of_weight = |grad: &Tensor| -> Result<Tensor> {
        let each = (grad * &scaled)?;
        if outer.is_empty() { Ok(each) } else { each.sum_dim(Some(&outer)) }
    };
    Ok((input, grad.filter(|_| wants[1]).map(of_weight).transpose()?))
}

/// What `_fused_rms_norm` adds where it is not told.
fn rms_eps(x: &Tensor, eps: Option<f64>) -> f64 {
    let wide = matches!(x.dtype(), ScalarType::Float64 | ScalarType::Complex128);
    eps.unwrap_or(if wide { f64::EPSILON } else { f32::EPSILON.into() })
}
