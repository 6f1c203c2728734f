//! The functions of `torch.special`.

use aten::ops::handles;
use aten::{Result, Tensor, TensorOptions};
use c10_core::Scalar;

use super::shape::{masked, ones_where};

/// `factor · exp(−x²)`.
pub(crate) fn gauss(x: &Tensor, factor: f64) -> Result<Tensor> {
    (x * x)?.neg()?.exp()? * factor
}

/// The density of the gamma distribution of shape `a` at `x`, which the incomplete gamma function is the integral of.
pub(crate) fn gamma_density(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    ((a.sub_scalar(1.0)? * x.log()?)? - x)?.sub(&a.lgamma()?)?.exp()
}

/// Of the multivariate log-gamma function: the sum of the digamma functions of its parts.
pub(crate) fn mvlgamma(grad: &Tensor, x: &Tensor, p: i64) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(grad.dtype()).device(grad.device());
    let shifts = Tensor::arange(p, options)?.mul_scalar(-0.5)?;
    let parts = (x.unsqueeze(-1)? + shifts)?.digamma()?;
    grad * parts.sum_dim(Some(&[-1]))
}

/// `f / x` of an odd function with a slope of one half at zero.
pub(crate) fn over_itself(f: &Tensor, x: &Tensor) -> Result<Tensor> {
    let zero = x.eq_scalar(0.0)?;
    let quotient = (f / ones_where(x, &zero)?)?;
    handles::MASKED_FILL_SCALAR.call(&quotient, &zero, Scalar::Double(0.5))
}

/// The derivative of the scaled modified Bessel function of the first kind and order one.
pub(crate) fn i1e_slope(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    (x.special_i0e()? - (x.sgn()? * result))? - over_itself(result, x)
}

/// The ratio of the normal density to the normal distribution function.
pub(crate) fn log_ndtr_slope(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let log_density = ((x * x)? * -0.5)?;
    (log_density - result)?.exp()? * (1.0 / (2.0 * std::f64::consts::PI).sqrt())
}

/// Zero where `x` is zero and the other argument is out of the logarithm's domain, as the function's value is.
pub(crate) fn of_zero(given: &Tensor, x: &Tensor, is_outside: &Tensor) -> Result<Tensor> {
    masked(given, &x.eq_scalar(0.0)?.logical_and(is_outside)?)
}

/// The same, for an argument that is a number, out of the domain up to `limit`.
pub(crate) fn of_zero_number(given: &Tensor, x: &Tensor, other: Scalar, limit: f64) -> Result<Tensor> {
    if other.to::<f64>()? <= limit { masked(given, &x.eq_scalar(0.0)?) } else { Ok(given.clone()) }
}

/// Of the Hurwitz zeta function of a number, for the second argument.
pub(crate) fn zeta_of_number(grad: &Tensor, x: Scalar, q: &Tensor) -> Result<Tensor> {
    let x = x.to::<f64>()?;
    (grad * -x)? * handles::SPECIAL_ZETA_SELF_SCALAR.call(Scalar::Double(x + 1.0), q)
}
