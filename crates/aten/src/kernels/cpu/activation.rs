//! Loops of activation functions and their gradients.

use c10_core::{Complex, Scalar};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, binary_simd, compute, ternary, unary, unary_simd};
use crate::math::{Activation, ComplexFloat, Float};

/// A loop of floats: as vector code in `f32`, as it is in `f64`.
macro_rules! real {
    ($iter:ident, $name:literal, $T:ident, $simd:ident or $plain:ident, $(let $number:ident = $value:expr;)* |$($x:ident),*| $body:expr) => {
        match $iter.common_dtype() {
            c10_core::ScalarType::Float64 => {
                type $T = f64;
                $(let $number: $T = $value;)*
                $plain($iter, |$($x: $T),*| $body)
            }
            dtype => compute!(dtype, $name, [f32], $T => {
                $(let $number: $T = $value;)*
                $simd($iter, #[inline(always)] |$($x: $T),*| $body)
            }),
        }
    };
}

/// Integers without a sign are as they are.
pub(crate) fn relu(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) && dtype.is_signed() => {
            compute!(dtype, "relu", [i8, i16, i32, i64], T => unary(iter, |x: T| x.max(0)))
        }
        dtype if dtype.is_integral(false) => super::rounding::identity(iter),
        dtype => compute!(dtype, "relu", [f32, f64], T => {
            unary_simd(iter, #[inline(always)] |x: T| x.relu())
        }),
    }
}

pub(crate) fn elu(iter: &TensorIter<'_>, alpha: Scalar, scale: Scalar, input_scale: Scalar) -> Result<()> {
    real!(iter, "elu", T, unary_simd or unary,
        let negative = alpha.to::<T>()? * scale.to::<T>()?;
        let positive = scale.to::<T>()?;
        let input = input_scale.to::<T>()?;
        |x| x.elu(negative, positive, input))
}

pub(crate) fn leaky_relu(iter: &TensorIter<'_>, slope: Scalar) -> Result<()> {
    real!(iter, "leaky_relu", T, unary_simd or unary_simd, let slope = slope.to::<T>()?; |x| x.leaky_relu(slope))
}

pub(crate) fn gelu(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "gelu", T, unary_simd or unary, |x| x.gelu())
}

/// [`gelu`] with a NaN for infinity.
pub(crate) fn gelu_finite(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "gelu", T, unary_simd or unary, |x| x.gelu() + x * <T as Float>::of(0.0))
}

pub(crate) fn gelu_tanh(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "gelu", T, unary_simd or unary, |x| x.gelu_tanh())
}

pub(crate) fn silu(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "silu", [Complex<f32>, Complex<f64>], C => {
            unary(iter, |z: C| C::of(z.wide() / (Complex::new(1.0, 0.0) + (-z.wide()).exp())))
        }),
        _ => real!(iter, "silu", T, unary_simd or unary, |x| x.silu()),
    }
}

pub(crate) fn mish(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "mish", T, unary_simd or unary, |x| x.mish())
}

pub(crate) fn hardswish(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "hardswish", T, unary_simd or unary_simd, |x| x.hardswish())
}

pub(crate) fn hardsigmoid(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "hardsigmoid", T, unary_simd or unary_simd, |x| x.hardsigmoid())
}

pub(crate) fn softplus(iter: &TensorIter<'_>, beta: Scalar, threshold: Scalar) -> Result<()> {
    real!(iter, "softplus", T, unary_simd or unary,
        let beta = beta.to::<T>()?;
        let threshold = threshold.to::<T>()?;
        |x| x.softplus(beta, threshold))
}

pub(crate) fn softshrink(iter: &TensorIter<'_>, lambda: Scalar) -> Result<()> {
    real!(iter, "softshrink", T, unary_simd or unary_simd, let lambda = lambda.to::<T>()?; |x| {
        if x > lambda { x - lambda } else if x < -lambda { x + lambda } else { x * 0.0 }
    })
}

pub(crate) fn hardshrink(iter: &TensorIter<'_>, lambda: Scalar) -> Result<()> {
    real!(iter, "hardshrink", T, unary_simd or unary_simd, let lambda = lambda.to::<T>()?; |x| {
        if x >= -lambda && x <= lambda { 0.0 } else { x }
    })
}

pub(crate) fn log_sigmoid(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "log_sigmoid", T, unary_simd or unary, |x| x.log_sigmoid())
}

/// `exp(−|x|)`, which the gradient of `log_sigmoid` starts from.
pub(crate) fn log_sigmoid_buffer(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "log_sigmoid", T, unary_simd or unary, |x| Float::exp(-x.abs()))
}

/// `x`, times the weight where not positive.
pub(crate) fn prelu(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "prelu", T, binary_simd or binary_simd, |x, weight| if x > 0.0 { x } else { x * weight })
}

/// `value` where `x` is not over the threshold, `other` elsewhere.
pub(crate) fn threshold(iter: &TensorIter<'_>, threshold: Scalar, value: Scalar) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "threshold", [u8, i8, i16, i32, i64], T => {
            let (threshold, value) = (threshold.to::<T>()?, value.to::<T>()?);
            binary(iter, |x: T, other: T| if x <= threshold { value } else { other })
        }),
        dtype => compute!(dtype, "threshold", [f32, f64], T => {
            let (threshold, value) = (threshold.to::<T>()?, value.to::<T>()?);
            binary_simd(iter, #[inline(always)] |x: T, other: T| if x <= threshold { value } else { other })
        }),
    }
}

// Gradients. The operands are the gradient of the output, then the input, or the output where it says so.

pub(crate) fn hardtanh_backward(iter: &TensorIter<'_>, min: Scalar, max: Scalar) -> Result<()> {
    real!(iter, "hardtanh_backward", T, binary_simd or binary_simd,
        let min = min.to::<T>()?;
        let max = max.to::<T>()?;
        |grad, x| if x <= min || x >= max { 0.0 } else { grad })
}

pub(crate) fn elu_backward(
    iter: &TensorIter<'_>,
    [alpha, scale, input_scale]: [Scalar; 3],
    is_result: bool,
) -> Result<()> {
    real!(iter, "elu_backward", T, binary_simd or binary,
    let negative = alpha.to::<T>()? * scale.to::<T>()?;
    let positive = scale.to::<T>()?;
    let input = input_scale.to::<T>()?;
    |grad, x| {
        let below = if is_result { x + negative } else { negative * Float::exp(x * input) };
        if x <= 0.0 { grad * input * below } else { grad * positive }
    })
}

pub(crate) fn leaky_relu_backward(iter: &TensorIter<'_>, slope: Scalar) -> Result<()> {
    real!(iter, "leaky_relu_backward", T, binary_simd or binary_simd, let slope = slope.to::<T>()?; |grad, x| {
        if x > 0.0 { grad } else { grad * slope }
    })
}

pub(crate) fn gelu_backward(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "gelu_backward", T, binary_simd or binary,
    let root_half = <T as Float>::of(std::f64::consts::FRAC_1_SQRT_2);
    let density = <T as Float>::of(0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
    |grad, x| {
        let share = 0.5 * (1.0 + Float::erf(x * root_half));
        grad * (share + x * density * Float::exp(-0.5 * x * x))
    })
}

pub(crate) fn gelu_tanh_backward(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "gelu_backward", T, binary_simd or binary,
    let scale = <T as Float>::of(std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
    let cubic = <T as Float>::of(0.044_715);
    |grad, x| {
        let tanh = Float::tanh(scale * (x + cubic * x * x * x));
        let slope = scale * (1.0 + 3.0 * cubic * x * x);
        grad * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
    })
}

pub(crate) fn silu_backward(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "silu_backward", [Complex<f32>, Complex<f64>], C => {
            binary(iter, |grad: C, x: C| {
                let (grad, x, one) = (grad.wide(), x.wide(), Complex::new(1.0, 0.0));
                let s = x.sigmoid();
                C::of(grad * (s * (one + x * (one - s))).conj())
            })
        }),
        _ => real!(iter, "silu_backward", T, binary_simd or binary, |grad, x| {
            let s = Float::sigmoid(x);
            grad * s * (1.0 + x * (1.0 - s))
        }),
    }
}

pub(crate) fn mish_backward(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "mish_backward", T, binary_simd or binary, |grad, x| {
        let tanh = Float::tanh(Float::log1p(Float::exp(x)));
        grad * (tanh + x * Float::sigmoid(x) * (1.0 - tanh * tanh))
    })
}

pub(crate) fn hardswish_backward(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "hardswish_backward", T, binary_simd or binary_simd, |grad, x| {
        if x <= -3.0 { 0.0 } else if x < 3.0 { grad * (x / 3.0 + 0.5) } else { grad }
    })
}

pub(crate) fn hardsigmoid_backward(iter: &TensorIter<'_>) -> Result<()> {
    real!(iter, "hardsigmoid_backward", T, binary_simd or binary_simd, let sixth = 1.0 / 6.0; |grad, x| {
        if x > -3.0 && x < 3.0 { grad * sixth } else { 0.0 }
    })
}

pub(crate) fn softplus_backward(iter: &TensorIter<'_>, beta: Scalar, threshold: Scalar) -> Result<()> {
    real!(iter, "softplus_backward", T, binary_simd or binary,
        let beta = beta.to::<T>()?;
        let threshold = threshold.to::<T>()?;
        |grad, x| if x * beta > threshold { grad } else { grad * Float::sigmoid(x * beta) })
}

pub(crate) fn shrink_backward(iter: &TensorIter<'_>, lambda: Scalar) -> Result<()> {
    real!(iter, "shrink_backward", T, binary_simd or binary_simd, let lambda = lambda.to::<T>()?; |grad, x| {
        if x >= -lambda && x <= lambda { 0.0 } else { grad }
    })
}

/// The third operand is the buffer that the forward loop made.
pub(crate) fn log_sigmoid_backward(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "log_sigmoid_backward", [f32, f64], T => {
        ternary(iter, |grad: T, x: T, z: T| {
            let share = z / (1.0 + z);
            grad * if x < 0.0 { 1.0 - share } else { share }
        })
    })
}

/// Of the output.
pub(crate) fn sigmoid_backward(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => {
            compute!(dtype, "sigmoid_backward", [Complex<f32>, Complex<f64>], C => {
                binary(iter, |grad: C, y: C| grad * ((C::ONE - y) * y).conj())
            })
        }
        _ => real!(iter, "sigmoid_backward", T, binary_simd or binary_simd, |grad, y| grad * (1.0 - y) * y),
    }
}

/// Of the output.
pub(crate) fn tanh_backward(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "tanh_backward", [Complex<f32>, Complex<f64>], C => {
            binary(iter, |grad: C, y: C| grad * (C::ONE - y * y).conj())
        }),
        _ => real!(iter, "tanh_backward", T, binary_simd or binary_simd, |grad, y| grad * (1.0 - y * y)),
    }
}

pub(crate) fn logit_backward(iter: &TensorIter<'_>, eps: Option<f64>) -> Result<()> {
    real!(iter, "logit_backward", T, binary or binary,
    let low = <T as Float>::of(eps.unwrap_or(0.0));
    let outside = if eps.is_some() { 0.0 } else { <T as Float>::NAN };
    |grad, x| {
        if x < low || x > 1.0 - low {
            outside
        } else if x == 0.0 || x == 1.0 {
            grad * <T as Float>::INFINITY
        } else {
            grad / (x * (1.0 - x))
        }
    })
}

/// Of the input; the operands are the input, the weight and the gradient.
pub(crate) fn prelu_backward(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "prelu_backward", [f32, f64], T => {
        ternary(iter, |x: T, weight: T, grad: T| if x > 0.0 { grad } else { weight * grad })
    })
}

/// Of the weight, before it is summed.
pub(crate) fn prelu_backward_weight(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "prelu_backward", [f32, f64], T => {
        ternary(iter, |x: T, _: T, grad: T| if x > 0.0 { 0.0 } else { x * grad })
    })
}
