//! Losses: means, sums or each for itself of a function of two numbers.

use aten::{Result, Tensor};

use super::shape::kept;

/// How a loss is reduced, as PyTorch numbers it.
pub(crate) const NONE: i64 = 0;
const MEAN: i64 = 1;
const SUM: i64 = 2;

/// As the loss is reduced.
pub(crate) fn reduced(each: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => each.mean(),
        SUM => each.sum(),
        _ => Ok(each.clone()),
    }
}

/// What each element has of the gradient of the loss.
pub(crate) fn shared(each: &Tensor, reduction: i64) -> Result<Tensor> {
    if reduction == MEAN { each / each.numel() as f64 } else { Ok(each.clone()) }
}

/// The gradient of a loss of pairs by its fused operator, which takes the mean over its first argument: where the
/// arguments are broadcast the mean is over the pairs.
pub(crate) fn of_pairs(
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    backward: impl Fn(i64) -> Result<Tensor>,
) -> Result<Tensor> {
    if reduction == MEAN && x.sizes() != target.sizes() {
        return shared(&backward(NONE)?, reduction);
    }
    backward(reduction)
}

pub(crate) fn smooth_l1_twice(
    v: &Tensor,
    x: &Tensor,
    target: &Tensor,
    beta: f64,
    reduction: i64,
) -> Result<Tensor> {
    let bent = (x - target)?.abs()?.lt_scalar(beta)?;
    shared(&kept(&(v / beta)?, &bent)?, reduction)
}

pub(crate) fn huber_twice(
    v: &Tensor,
    x: &Tensor,
    target: &Tensor,
    delta: f64,
    reduction: i64,
) -> Result<Tensor> {
    let bent = (x - target)?.abs()?.lt_scalar(delta)?;
    shared(&kept(v, &bent)?, reduction)
}

pub(crate) fn soft_margin_twice(v: &Tensor, x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    let share = (x * target)?.sigmoid()?;
    let bend = ((&share * share.rsub_scalar(1.0)?)? * (target * target)?)?;
    shared(&(v * bend)?, reduction)
}

fn weighed(each: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or(Ok(each.clone()), |weight| each * weight)
}

/// Of binary cross entropy, for the target. Logarithms are cut at −100, as in the loss.
pub(crate) fn cross_entropy_target(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let odds = (x.neg()?.log1p()?.clamp_min(-100.0)? - x.log()?.clamp_min(-100.0)?)?;
    shared(&weighed((grad * odds)?, weight)?, reduction)
}

/// What keeps divisors from zero in binary cross entropy.
const TINY: f64 = 1e-12;

/// Of the gradient of binary cross entropy, `(x − t) / (x (1 − x))`, for `x`.
pub(crate) fn cross_entropy_twice(
    v: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let below = (x.add_scalar(TINY)? * x.rsub_scalar(1.0 + TINY)?)?;
    let above = (((x * x)? - ((x * target)? * 2.0)?)? + target)?;
    shared(&weighed((v * (above / (&below * &below)?)?)?, weight)?, reduction)
}

/// The same, for the target.
pub(crate) fn cross_entropy_twice_target(
    v: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let below = (x.add_scalar(TINY)? * x.rsub_scalar(1.0 + TINY)?)?;
    shared(&weighed((v / below)?.neg()?, weight)?, reduction)
}

/// Of binary cross entropy of logits, `(1 − t) x − (1 + (p − 1) t) log σ(x)`.
pub(crate) fn with_logits(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = match pos_weight {
        None => (x.sigmoid()? - target)?,
        Some(pos_weight) => {
            let positive = (target * pos_weight)?;
            ((positive.add_scalar(1.0)?.sub(target)? * x.sigmoid()?)? - positive)?
        }
    };
    shared(&weighed((grad * slope)?, weight)?, reduction)
}

pub(crate) fn with_logits_target(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = match pos_weight {
        None => x.neg()?,
        Some(pos_weight) => ((pos_weight.rsub_scalar(1.0)? * x.log_sigmoid()?)? - x)?,
    };
    shared(&weighed((grad * slope)?, weight)?, reduction)
}

pub(crate) fn with_logits_weight(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let log = x.log_sigmoid()?;
    let log = match pos_weight {
        None => log,
        Some(pos_weight) => (log * (pos_weight.sub_scalar(1.0)? * target)?.add_scalar(1.0)?)?,
    };
    shared(&(grad * ((target.rsub_scalar(1.0)? * x)? - log)?)?, reduction)
}

pub(crate) fn with_logits_pos_weight(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = (target * x.log_sigmoid()?)?.neg()?;
    shared(&weighed((grad * slope)?, weight)?, reduction)
}
