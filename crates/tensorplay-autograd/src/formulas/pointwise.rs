//! Functions of numbers, element by element.

use aten::{Result, Tensor};
use c10_core::{Complex, Scalar};

use super::shape::{kept, masked, ones_where, zeros_of};

const I: Complex<f64> = Complex::new(0.0, 1.0);

/// Of the angle: for real numbers a step, for complex ones `i x / |x|²`, and zero at the origin.
pub(crate) fn angle(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_of(grad);
    }
    let zero = x.eq_scalar(0.0)?;
    let size = ones_where(&x.abs()?, &zero)?;
    let direction = ((x / (&size * &size))? * I)?;
    masked(&(grad * direction)?, &zero)
}

/// Of the direction: for complex numbers what of the gradient is at right angles to it.
pub(crate) fn sgn(grad: &Tensor, x: &Tensor, direction: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_of(grad);
    }
    let size = x.abs()?;
    let zero = size.eq_scalar(0.0)?;
    let scaled = (grad / ones_where(&size, &zero)?)?;
    let along = (&scaled * direction.conj())?.real()?;
    masked(&(&scaled - (along * direction))?, &zero)
}

/// `1 / √(1 − x²)`, its conjugate.
pub(crate) fn asin_slope(x: &Tensor) -> Result<Tensor> {
    (x * x)?.rsub_scalar(1.0)?.rsqrt()?.conj()
}

/// `1 / √(x² − 1)`; for complex numbers in two roots, which meet at the cut that `acosh` has.
pub(crate) fn acosh(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let slope = match x.dtype().is_complex() {
        true => (x.sub_scalar(1.0)?.rsqrt()? * x.add_scalar(1.0)?.rsqrt()?)?,
        false => (x * x)?.sub_scalar(1.0)?.rsqrt()?,
    };
    grad * slope.conj()
}

/// Of `sin(πx) / (πx)`: zero at zero.
pub(crate) fn sinc(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let angle = (x * std::f64::consts::PI)?;
    let zero = x.eq_scalar(0.0)?;
    let above = ((&angle * angle.cos()?)? - angle.sin()?)?;
    let slope = (above / ones_where(&(&angle * x)?, &zero)?)?;
    // At zero it is zero too, but has a slope of its own.
    let tangent = (x * (-std::f64::consts::PI * std::f64::consts::PI / 3.0))?;
    grad * zero.where_self(&tangent, &slope)?.conj()
}

/// The second derivative of `logit`, times `scale`: none where the argument was clamped.
pub(crate) fn logit_twice(scale: &Tensor, x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let slope = (x * x.rsub_scalar(1.0)?)?;
    let made = (scale * ((x * 2.0)?.sub_scalar(1.0)? / (&slope * &slope)?)?)?;
    match eps.filter(|eps| *eps >= 0.0) {
        None => Ok(made),
        Some(eps) => kept(&made, &x.ge_scalar(eps)?.logical_and(&x.le_scalar(1.0 - eps)?)?),
    }
}

/// Of a quotient, for the dividend: a rounded one is a step.
pub(crate) fn div(grad: &Tensor, other: &Tensor, rounding: Option<&str>) -> Result<Tensor> {
    if rounding.is_some() { zeros_of(grad) } else { grad / other.conj() }
}

/// Of a quotient, for the divisor.
pub(crate) fn div_other(grad: &Tensor, x: &Tensor, other: &Tensor, rounding: Option<&str>) -> Result<Tensor> {
    if rounding.is_some() {
        return zeros_of(grad);
    }
    grad.neg()? * ((x / other)? / other)?.conj()
}

/// Of the greater or lesser of two: nothing where the other one was chosen, half where they are the same.
pub(crate) fn chosen(grad: &Tensor, x: &Tensor, other: &Tensor, lost: &Tensor) -> Result<Tensor> {
    masked(&x.eq(other)?.where_self(&(grad / 2.0)?, grad)?, lost)
}

/// `1 / (x² + y²)`; zero at the origin, which has no angle.
pub(crate) fn inverse_square(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let square = ((x * x)? + (y * y)?)?;
    let zero = square.eq_scalar(0.0)?;
    masked(&ones_where(&square, &zero)?.reciprocal()?, &zero)
}

/// The sign that was changed, times the gradient; zero at zero.
pub(crate) fn copysign(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let zero = x.eq_scalar(0.0)?;
    masked(&(grad * (result / ones_where(x, &zero)?))?, &zero)
}

/// Of `log(exp(x) + exp(other))`, for `x`: its share of the sum. Of nothing and nothing there are no shares.
pub(crate) fn logaddexp(grad: &Tensor, x: &Tensor, other: &Tensor, result: &Tensor) -> Result<Tensor> {
    let share = masked(&(x - other)?, &x.eq(other)?)?.sigmoid()?;
    masked(&(grad * share.conj())?, &result.eq_scalar(f64::NEG_INFINITY)?)
}

/// The same, to base two.
pub(crate) fn logaddexp2(grad: &Tensor, x: &Tensor, other: &Tensor, result: &Tensor) -> Result<Tensor> {
    let share = (masked(&(x - other)?, &x.eq(other)?)? * std::f64::consts::LN_2)?.sigmoid()?;
    masked(&(grad * share)?, &result.eq_scalar(f64::NEG_INFINITY)?)
}

/// Of a power with a number for its exponent, for the base.
pub(crate) fn pow(grad: &Tensor, base: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if exponent.to::<Complex<f64>>()? == Complex::new(0.0, 0.0) {
        return zeros_of(grad);
    }
    let lower = match exponent {
        Scalar::Bool(value) => Scalar::Int(i64::from(value) - 1),
        Scalar::Int(value) => Scalar::Int(value.wrapping_sub(1)),
        Scalar::Complex(value) => Scalar::Complex(Complex::new(value.re - 1.0, value.im)),
        number => Scalar::Double(number.to::<f64>()? - 1.0),
    };
    grad * base.pow_scalar(lower)?.mul_scalar(exponent)?.conj()
}

/// Of a power, for the base.
pub(crate) fn pow_base(grad: &Tensor, base: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let slope = (exponent * base.pow(&exponent.add_scalar(-1_i64)?)?)?.conj()?;
    masked(&(grad * slope)?, &exponent.eq_scalar(0.0)?)
}

/// Of a power, for the exponent: `result · log(base)`, and zero for a base of zero with an exponent that is not below
/// it.
pub(crate) fn pow_exponent(
    grad: &Tensor,
    base: &Tensor,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let zero = base.eq_scalar(0.0)?.logical_and(&is_not_below_zero(exponent)?)?;
    grad * (result * ones_where(&base.to(result.dtype())?, &zero)?.log()?)?.conj()
}

/// The same, for a base that is a number.
pub(crate) fn pow_exponent_of_number(
    grad: &Tensor,
    base: Scalar,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let base = base.to::<Complex<f64>>()?;
    let log = if result.dtype().is_complex() {
        Scalar::Complex(Complex::new(base.abs().ln(), base.arg()))
    } else {
        Scalar::Double(base.re.ln())
    };
    let slope = result.mul_scalar(log)?;
    let slope = match base == Complex::new(0.0, 0.0) {
        true => masked(&slope, &is_not_below_zero(exponent)?)?,
        false => slope,
    };
    grad * slope.conj()
}

fn is_not_below_zero(exponent: &Tensor) -> Result<Tensor> {
    if exponent.dtype().is_complex() {
        return exponent.imag()?.eq_scalar(0.0)?.logical_and(&exponent.real()?.ge_scalar(0.0)?);
    }
    exponent.ge_scalar(0.0)
}

/// What `native_dropout` scales what it leaves with.
pub(crate) fn dropout_scale(p: f64, train: Option<bool>) -> f64 {
    match (train, p) {
        (Some(false), _) => 1.0,
        (_, 1.0) => 0.0,
        (_, p) => 1.0 / (1.0 - p),
    }
}
