//! The gradients of the gradients of distances of rows.

use aten::ops::handles;
use aten::{Result, Tensor, TensorOptions};
use c10_core::ScalarType;

use super::shape::{masked, ones_where, total};

/// What a gradient of a distance's gradient is for: the gradient of the distance, the difference, and the distance.
struct OfPairs {
    grad_output: Tensor,
    difference: Tensor,
    distance: Tensor,
}

/// Differences of pairs of rows, along the last dimension, and their `p`-norms, where that dimension has size 1.
struct Pairs<'a> {
    difference: &'a Tensor,
    distance: &'a Tensor,
    p: f64,
}

impl Pairs<'_> {
    /// The gradient of the distances by a difference `d` is `sgn(d)·|d|^(p-1)·distance^(1-p)`, and zero where the
    /// distance is. `grad` is what comes in for the differences' gradients, `grad_output` what came in for the
    /// distances.
    fn double_backward(&self, grad: &Tensor, grad_output: &Tensor) -> Result<OfPairs> {
        let Self { difference, distance, p } = *self;
        if p == 0.0 {
            return Self::none(&(grad * difference)?, grad_output);
        }
        let is_zero = distance.eq_scalar(0)?;
        if p.is_infinite() {
            let is_largest = difference.abs()?.eq(distance)?.logical_and(&is_zero.logical_not()?)?;
            let slope = (difference.sgn()? * is_largest)?;
            let none = Self::none(&(grad * difference)?, grad_output)?;
            return Ok(OfPairs { grad_output: total(&(grad * slope)?, -1)?, ..none });
        }
        let divisor = ones_where(distance, &is_zero)?;
        let power = difference.abs()?.pow_scalar(p - 1.0)? * difference.sgn()?;
        let along = total(&(grad * power)?, -1)?;
        let scale = masked(&divisor.pow_scalar(1.0 - p)?, &is_zero)?;
        let by_distance = masked(&divisor.pow_scalar(-p)?.mul_scalar(1.0 - p)?, &is_zero)?;
        let is_same = difference.eq_scalar(0)?;
        let bend = ones_where(&difference.abs()?, &is_same)?.pow_scalar(p - 2.0)?.mul_scalar(p - 1.0)?;
        let bend = if p == 2.0 { bend } else { masked(&bend, &is_same)? };
        Ok(OfPairs {
            difference: ((grad * grad_output)? * (bend * &scale))?,
            distance: ((grad_output * &along)? * by_distance)?,
            grad_output: (along * scale)?,
        })
    }

    fn none(difference: &Tensor, grad_output: &Tensor) -> Result<OfPairs> {
        let zeros = grad_output.zeros_like(TensorOptions::default())?;
        let difference = difference.zeros_like(TensorOptions::default())?;
        Ok(OfPairs { grad_output: zeros.clone(), difference, distance: zeros })
    }
}

/// Of `_cdist_backward`: for `grad_output`, `x1`, `x2` and the distances.
pub(crate) fn cdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    cdist: &Tensor,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let difference = (x1.unsqueeze(-2)? - x2.unsqueeze(-3)?)?;
    let distance = cdist.unsqueeze(-1)?;
    let pairs = Pairs { difference: &difference, distance: &distance, p };
    let of = pairs.double_backward(&grad.unsqueeze(-2)?, &grad_output.unsqueeze(-1)?)?;
    let of_x1 = of.difference.sum_dim(Some(&[-2]))?;
    let of_x2 = of.difference.sum_dim(Some(&[-3]))?.neg()?;
    Ok((of.grad_output.squeeze_dim(-1)?, of_x1, of_x2, of.distance.squeeze_dim(-1)?))
}

/// Of `_pdist_backward`: for `grad_output`, the rows and the distances.
pub(crate) fn pdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    rows: &Tensor,
    p: f64,
    pdist: &Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let count = rows.sizes()[0];
    let dtype = Some(ScalarType::Int64);
    let places = handles::TRIU_INDICES.call(count, count, 1, dtype, None, Some(rows.device()), None)?;
    let (first, second) = (places.select(0, 0)?, places.select(0, 1)?);
    let apart = |x: &Tensor| x.index_select(0, &first)? - x.index_select(0, &second)?;
    let difference = apart(rows)?;
    let distance = pdist.unsqueeze(-1)?;
    let pairs = Pairs { difference: &difference, distance: &distance, p };
    let of = pairs.double_backward(&apart(grad)?, &grad_output.unsqueeze(-1)?)?;
    let zeros = rows.zeros_like(TensorOptions::default())?;
    let of_rows = zeros.index_add(0, &first, &of.difference)?.index_add(0, &second, &of.difference.neg()?)?;
    Ok((of.grad_output.squeeze_dim(-1)?, of_rows, of.distance.squeeze_dim(-1)?))
}
