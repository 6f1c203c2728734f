//! Variances and standard deviations.

use aten::{Result, Tensor};
use c10_core::Scalar;

use super::reduce::{self, count, dims_of, restored};
use super::shape::{masked, mean_of, ones_where};

/// What `unbiased` says of the correction.
pub(crate) fn correction(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(i64::from(unbiased)))
}

/// Of a variance: `2 (x − mean) / (n − correction)`. With no degree of freedom it is not a number where the elements
/// are the mean, and infinite elsewhere.
pub(crate) fn var(
    grad: &Tensor,
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let correction = correction.map_or(Ok(1.0), Scalar::to::<f64>)?;
    let freedom = count(&x.sizes(), dims) as f64 - correction;
    let centred = (x - mean_of(x, &dims_of(x.rank(), dims))?)?;
    let grad = restored(grad, x.rank(), dims, keepdim)?;
    if freedom <= 0.0 && dims.is_none_or(<[i64]>::is_empty) {
        let is_mean = centred.eq_scalar(0.0)?;
        return grad * is_mean.where_scalar(f64::NAN, f64::INFINITY)?;
    }
    (grad * (2.0 / freedom))? * centred
}

/// Of a standard deviation: none where it is zero.
pub(crate) fn std(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let zero = result.eq_scalar(0.0)?;
    let of_var = masked(&(grad / (ones_where(result, &zero)? * 2.0)?)?, &zero)?;
    var(&of_var, x, dims, correction, keepdim)
}

/// Of a moment and the mean, of which either may have no gradient.
fn with_mean(
    of_moment: Option<Tensor>,
    of_mean: Option<&Tensor>,
    x: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let of_mean = of_mean.map(|grad| reduce::mean(grad, &x.sizes(), dims, keepdim)).transpose()?;
    match (of_moment, of_mean) {
        (Some(moment), Some(mean)) => Ok(Some(moment.add(&mean)?)),
        (moment, mean) => Ok(moment.or(mean)),
    }
}

pub(crate) fn var_mean(
    grads: &[Option<Tensor>],
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let of_var = grads[0].as_ref().map(|grad| var(grad, x, dims, correction, keepdim)).transpose()?;
    with_mean(of_var, grads[1].as_ref(), x, dims, keepdim)
}

pub(crate) fn std_mean(
    grads: &[Option<Tensor>],
    x: &Tensor,
    result: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let of_std = grads[0].as_ref().map(|grad| std(grad, x, result, dims, correction, keepdim)).transpose()?;
    with_mean(of_std, grads[1].as_ref(), x, dims, keepdim)
}
