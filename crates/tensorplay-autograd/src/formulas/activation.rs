//! Second derivatives of activations.

use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::Scalar;

use super::shape::{kept, masked};

/// The constants of the self-normalising unit.
pub(crate) const SELU_ALPHA: Scalar = Scalar::Double(1.673_263_242_354_377_2);
pub(crate) const SELU_SCALE: Scalar = Scalar::Double(1.050_700_987_355_480_5);

/// `celu` is `elu` of `x / alpha`.
pub(crate) fn celu_input_scale(alpha: Scalar) -> Result<Scalar> {
    Ok(Scalar::Double(1.0 / alpha.to::<f64>()?))
}

/// Of the gradient of `elu`, below zero, from the argument or the result.
pub(crate) fn elu_twice(
    v: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Tensor> {
    let below = x.lt_scalar(0.0)?;
    if is_result {
        return kept(&v.mul_scalar(input_scale)?, &below);
    }
    let (alpha, scale, input_scale) = (alpha.to::<f64>()?, scale.to::<f64>()?, input_scale.to::<f64>()?);
    let power = x.clamp_max(0.0)?.mul_scalar(input_scale)?.exp()?;
    kept(&(v * power)?.mul_scalar(alpha * scale * input_scale * input_scale)?, &below)
}

/// The second derivative of `gelu`.
pub(crate) fn gelu_twice(x: &Tensor, approximate: &str) -> Result<Tensor> {
    use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};
    if approximate != "tanh" {
        let density = ((x * x)? * -0.5)?.exp()?.mul_scalar(1.0 / (2.0 * PI).sqrt())?;
        return density * (x * x)?.rsub_scalar(2.0)?;
    }
    // Of `x (1 + tanh u) / 2` with `u = k (x + c x³)`.
    let (k, c) = (FRAC_2_SQRT_PI / SQRT_2, 0.044_715);
    let square = (x * x)?;
    let tanh = (x * (&square * c)?.add_scalar(1.0)?)?.mul_scalar(k)?.tanh()?;
    let first = square.mul_scalar(3.0 * c)?.add_scalar(1.0)?.mul_scalar(k)?;
    let second = x.mul_scalar(6.0 * k * c)?;
    let curve = (second - (&tanh * (&first * &first)?)?.mul_scalar(2.0)?)?;
    let slope = (&tanh * &tanh)?.rsub_scalar(1.0)?;
    slope * (first + (x * curve)?.mul_scalar(0.5)?)?
}

/// The second derivative of `silu`.
pub(crate) fn silu_twice(x: &Tensor) -> Result<Tensor> {
    let share = x.sigmoid()?;
    let rest = share.rsub_scalar(1.0)?;
    (&share * &rest)? * (x * (&rest - &share)?)?.add_scalar(2.0)?
}

/// The second derivative of `mish`.
pub(crate) fn mish_twice(x: &Tensor) -> Result<Tensor> {
    let share = x.sigmoid()?;
    let tanh = handles::SOFTPLUS.call(x, Scalar::Int(1), Scalar::Int(20))?.tanh()?;
    let slope = ((&tanh * &tanh)?.rsub_scalar(1.0)? * &share)?;
    let bend = (share.rsub_scalar(1.0)? - (&tanh * &share)?.mul_scalar(2.0)?)?;
    slope * (x * bend)?.add_scalar(2.0)?
}

/// Of the gradient of `softplus`, where that is not a straight line.
pub(crate) fn softplus_twice(v: &Tensor, x: &Tensor, beta: Scalar, threshold: Scalar) -> Result<Tensor> {
    let scaled = x.mul_scalar(beta)?;
    let share = scaled.sigmoid()?;
    let made = (v * (&share * share.rsub_scalar(1.0)?)?)?.mul_scalar(beta)?;
    masked(&made, &scaled.gt_scalar(threshold)?)
}

/// Of the gradients of `prelu`, of which that of the input is `grad`, or `weight · grad` where the input is below
/// zero, and that of the weight zero, or `input · grad`.
pub(crate) fn prelu_twice(
    grads: &[Option<Tensor>],
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let above = x.ge_scalar(0.0)?;
    let (of_input, of_weight) = (grads[0].as_ref(), grads[1].as_ref());
    let through = of_input.map(|grad| above.where_self(grad, &(grad * weight)?)).transpose()?;
    let beside = of_weight.map(|grad| masked(&(grad * x)?, &above)).transpose()?;
    let grad_output_grad = match (through, beside) {
        (Some(through), Some(beside)) => Some(through.add(&beside)?),
        (through, beside) => through.or(beside),
    };
    let input_grad = of_weight.map(|grad| masked(&(grad * grad_output)?, &above)).transpose()?;
    let weight_grad = of_input.map(|grad| masked(&(grad * grad_output)?, &above)).transpose()?;
    Ok((grad_output_grad, input_grad, weight_grad))
}
