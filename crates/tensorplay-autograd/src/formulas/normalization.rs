//! Normalisation over layers, groups and batches.
//!
//! The gradient is one fused operator; where it is to have a gradient itself it is made of small ones instead,
//! statistics and all.

use aten::ops::handles;
use aten::{Result, Tensor};

use super::shape::{mean_of, total_of};
use crate::mode::is_grad_enabled;

/// Gradients of the input, the weight and the bias.
type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The input without mean and spread, and what it was scaled with.
struct Normalized {
    x: Tensor,
    inverse: Tensor,
}

impl Normalized {
    /// With the statistics along `dims`, which are of the input.
    fn of(x: &Tensor, dims: &[i64], eps: f64) -> Result<Self> {
        let centred = (x - mean_of(x, dims)?)?;
        let inverse = mean_of(&(&centred * &centred)?, dims)?.add_scalar(eps)?.rsqrt()?;
        Ok(Self { x: (centred * &inverse)?, inverse })
    }

    /// The gradient of what was normalised along `dims`.
    fn backward(&self, grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
        let along = (&self.x * mean_of(&(grad * &self.x)?, dims)?)?;
        ((grad - mean_of(grad, dims)?)? - along)? * &self.inverse
    }
}

/// Gives what is wanted alone.
fn when(wanted: bool, make: impl FnOnce() -> Result<Tensor>) -> Result<Option<Tensor>> {
    wanted.then(make).transpose()
}

fn weighed(grad: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or_else(|| Ok(grad.clone()), |weight| grad * weight)
}

#[allow(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn layer_norm(
    grad: &Tensor,
    x: &Tensor,
    shape: &[i64],
    [mean, inverse]: [&Tensor; 2],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    if !is_grad_enabled() {
        return handles::NATIVE_LAYER_NORM_BACKWARD.call(grad, x, shape, mean, inverse, weight, bias, &wants);
    }
    let axis = x.rank() - shape.len();
    let (inner, outer): (Vec<i64>, Vec<i64>) = (0..x.rank() as i64).partition(|dim| *dim >= axis as i64);
    let normalized = Normalized::of(x, &inner, eps)?;
    let summed = |each: Tensor| -> Result<Tensor> {
        if outer.is_empty() { Ok(each) } else { each.sum_dim(Some(&outer)) }
    };
    Ok((
        when(wants[0], || normalized.backward(&weighed(grad, weight)?, &inner))?,
        when(wants[1], || summed((grad * &normalized.x)?))?,
        when(wants[2], || summed(grad.clone()))?,
    ))
}

/// `sizes` are those of the batch, the channels and the rest, and the number of groups.
pub(crate) fn group_norm(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    [mean, inverse]: [&Tensor; 2],
    sizes: [i64; 4],
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    let [batch, channels, rest, groups] = sizes;
    if !is_grad_enabled() {
        return handles::NATIVE_GROUP_NORM_BACKWARD
            .call(grad, x, mean, inverse, weight, batch, channels, rest, groups, &wants);
    }
    let shape = [batch, groups, channels / groups, rest];
    let (grad, weight) = (
        grad.reshape(&shape)?,
        weight.map(|weight| weight.reshape(&[1, groups, channels / groups, 1])).transpose()?,
    );
    let normalized = Normalized::of(&x.reshape(&shape)?, &[2, 3], eps)?;
    let summed = |each: &Tensor| total_of(each, &[0, 3])?.reshape(&[channels]);
    Ok((
        when(wants[0], || {
            normalized.backward(&weighed(&grad, weight.as_ref())?, &[2, 3])?.reshape(&x.sizes())
        })?,
        when(wants[1], || summed(&(&grad * &normalized.x)?))?,
        when(wants[2], || summed(&grad))?,
    ))
}

#[allow(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn batch_norm(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    [running_mean, running_var]: [Option<&Tensor>; 2],
    [mean, inverse]: [&Tensor; 2],
    training: bool,
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    if !is_grad_enabled() {
        return handles::NATIVE_BATCH_NORM_BACKWARD.call(
            grad,
            x,
            weight,
            running_mean,
            running_var,
            Some(mean),
            Some(inverse),
            training,
            eps,
            &wants,
        );
    }
    let dims: Vec<i64> = (0..x.rank() as i64).filter(|dim| *dim != 1).collect();
    let mut shape = vec![1; x.rank()];
    shape[1] = -1;
    let weight = weight.map(|weight| weight.reshape(&shape)).transpose()?;
    let of_output = weighed(grad, weight.as_ref())?;
    let normalized = match (training, running_mean, running_var) {
        (false, Some(mean), Some(var)) => {
            let inverse = var.add_scalar(eps)?.rsqrt()?.reshape(&shape)?;
            Normalized { x: ((x - mean.reshape(&shape)?)? * &inverse)?, inverse }
        }
        _ => Normalized::of(x, &dims, eps)?,
    };
    let summed = |each: &Tensor| each.sum_dim(Some(&dims));
    Ok((
        when(wants[0], || match training {
            true => normalized.backward(&of_output, &dims),
            false => of_output * &normalized.inverse,
        })?,
        when(wants[1], || summed(&(grad * &normalized.x)?))?,
        when(wants[2], || summed(grad))?,
    ))
}

/// There is no fused operator for this one.
pub(crate) fn rms_norm(
    grad: &Tensor,
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
        true => {
            let eps = eps.unwrap_or(
                if inverse.dtype() == c10_core::ScalarType::Float64
                    || inverse.dtype() == c10_core::ScalarType::Complex128
                {
                    f64::EPSILON
                } else {
                    f32::EPSILON.into()
                },
            );
            mean_of(&(x * x)?, &inner)?.add_scalar(eps)?.rsqrt()?
        }
    };
    let scaled = (x * &inverse)?;
    Ok((
        when(wants[0], || {
            let grad = weighed(grad, weight.map(Tensor::conj).transpose()?.as_ref())?;
            let along = (scaled.conj()? * mean_of(&(&grad * scaled.conj()?)?, &inner)?)?;
            (grad - along)? * inverse.conj()?
        })?,
        when(wants[1], || {
            let each = (grad * scaled.conj()?)?;
            if outer.is_empty() { Ok(each) } else { each.sum_dim(Some(&outer)) }
        })?,
    ))
}
