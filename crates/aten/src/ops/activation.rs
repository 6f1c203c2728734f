//! Activation functions, element by element.

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise};
use super::{Dest, Made, clamp, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::activation as loops;
use crate::tensor::Tensor;

const OPERATORS: &[Pointwise] = &[
    Pointwise {
        name: "relu",
        config: Config::SAME,
        takes: Dtypes::NUMBERS.and(Dtypes::WIDE_UNSIGNED),
        kernel: loops::relu,
    },
    Pointwise { name: "silu", config: Config::SAME, takes: Dtypes::FLOATS_COMPLEX, kernel: loops::silu },
    Pointwise { name: "mish", config: Config::SAME, takes: Dtypes::FLOATS, kernel: loops::mish },
    Pointwise { name: "hardswish", config: Config::SAME, takes: Dtypes::FLOATS, kernel: loops::hardswish },
    Pointwise {
        name: "hardsigmoid",
        config: Config::SAME,
        takes: Dtypes::FLOATS,
        kernel: loops::hardsigmoid,
    },
    Pointwise {
        name: "log_sigmoid",
        config: Config::SAME,
        takes: Dtypes::FLOATS,
        kernel: loops::log_sigmoid,
    },
];

/// `selu` is `elu` with these: the fixed point of mean 0 and variance 1.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    forms::register_unary(lib, OPERATORS)?;
    forms::unary(lib, "relu6", |dest, a| hardtanh(dest, a, Scalar::Int(0), Scalar::Int(6)))?;
    forms::unary(lib, "selu", |dest, a| {
        elu(dest, a, Scalar::Double(SELU_ALPHA), Scalar::Double(SELU_SCALE), Scalar::Int(1))
    })?;
    register_triple!(lib, hardtanh, (a: &Tensor, min: Scalar, max: Scalar),
        functional "hardtanh", inplace "hardtanh_", out "hardtanh.out");
    register_triple!(lib, elu, (a: &Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar),
        functional "elu", inplace "elu_", out "elu.out");
    register_triple!(lib, celu, (a: &Tensor, alpha: Scalar), functional "celu", inplace "celu_");
    register_triple!(lib, leaky_relu, (a: &Tensor, slope: Scalar),
        functional "leaky_relu", inplace "leaky_relu_", out "leaky_relu.out");
    register_triple!(lib, gelu, (a: &Tensor, approximate: &str),
        functional "gelu", inplace "gelu_", out "gelu.out");
    register_triple!(lib, softplus, (a: &Tensor, beta: Scalar, threshold: Scalar),
        functional "softplus", out "softplus.out");
    register_triple!(lib, softshrink, (a: &Tensor, lambda: Scalar), functional "softshrink", out "softshrink.out");
    register_triple!(lib, hardshrink, (a: &Tensor, lambda: Scalar), functional "hardshrink", out "hardshrink.out");
    register_triple!(lib, threshold, (a: &Tensor, level: Scalar, value: Scalar),
        functional "threshold", inplace "threshold_", out "threshold.out");
    lib.cpu_meta("log_sigmoid_forward", |a: &Tensor| {
        let (output, buffer) = log_sigmoid_forward(Dest::New, Dest::New, a)?;
        Ok((output.new_tensor(), buffer.new_tensor()))
    })?;
    lib.cpu_meta("log_sigmoid_forward.output", |a: &Tensor, output: &Tensor, buffer: &Tensor| {
        log_sigmoid_forward(Dest::Out(output), Dest::Out(buffer), a).map(drop)
    })?;
    lib.cpu_meta("_prelu_kernel", |a: &Tensor, weight: &Tensor| {
        Dtypes::FLOATS.check("prelu", a.dtype())?;
        let iter = TensorIter::binary(Dest::New, a, weight, Config::SAME)?;
        if !iter.is_meta() {
            loops::prelu(&iter)?;
        }
        iter.finish().map(Made::new_tensor)
    })
}

/// A loop of floats with numbers of its own.
fn floats(
    dest: Dest<'_>,
    a: &Tensor,
    name: &str,
    kernel: impl FnOnce(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    Dtypes::FLOATS.check(name, a.dtype())?;
    let iter = TensorIter::unary(dest, a, Config::SAME)?;
    if !iter.is_meta() {
        kernel(&iter)?;
    }
    iter.finish()
}

fn hardtanh(dest: Dest<'_>, a: &Tensor, min: Scalar, max: Scalar) -> Result<Made> {
    if a.dtype() == ScalarType::Bool {
        return Err(Error::dtype("Bool inputs not supported for hardtanh"));
    }
    let is_negative = |number: Scalar| match number {
        Scalar::Int(number) => number < 0,
        Scalar::Double(number) => number < 0.0,
        _ => false,
    };
    if a.dtype() == ScalarType::UInt8 && is_negative(max) {
        return Err(Error::invalid_argument("cannot do hardtanh on an unsigned type with negative limits"));
    }
    clamp::limit_in_own_dtype(dest, a, Some(min), Some(max))
}

fn elu(dest: Dest<'_>, a: &Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar) -> Result<Made> {
    floats(dest, a, "elu", |iter| loops::elu(iter, alpha, scale, input_scale))
}

fn celu(dest: Dest<'_>, a: &Tensor, alpha: Scalar) -> Result<Made> {
    let value = alpha.to::<f64>()?;
    if value == 0.0 {
        return Err(Error::invalid_argument("ZeroDivisionError: alpha cannot be 0 for CELU"));
    }
    elu(dest, a, alpha, Scalar::Int(1), Scalar::Double(1.0 / value))
}

fn leaky_relu(dest: Dest<'_>, a: &Tensor, slope: Scalar) -> Result<Made> {
    floats(dest, a, "leaky_relu", |iter| loops::leaky_relu(iter, slope))
}

fn gelu(dest: Dest<'_>, a: &Tensor, approximate: &str) -> Result<Made> {
    let by_tanh = is_tanh(approximate)?;
    // PyTorch leaves these to oneDNN, whose formula has no answer for infinity.
    let is_dense =
        matches!(a.dtype(), ScalarType::Float32 | ScalarType::BFloat16) && a.numel() > 1 && a.is_contiguous();
    let kernel = match (by_tanh, is_dense) {
        (true, _) => loops::gelu_tanh,
        (false, true) => loops::gelu_finite,
        (false, false) => loops::gelu,
    };
    floats(dest, a, "gelu", kernel)
}

/// Which of the two forms of `gelu` is meant.
pub(super) fn is_tanh(approximate: &str) -> Result<bool> {
    match approximate {
        "none" => Ok(false),
        "tanh" => Ok(true),
        other => Err(Error::invalid_argument(format!(
            "approximate argument must be either none or tanh, and is '{other}'"
        ))),
    }
}

fn softplus(dest: Dest<'_>, a: &Tensor, beta: Scalar, threshold: Scalar) -> Result<Made> {
    floats(dest, a, "softplus", |iter| loops::softplus(iter, beta, threshold))
}

fn softshrink(dest: Dest<'_>, a: &Tensor, lambda: Scalar) -> Result<Made> {
    let value = lambda.to::<f64>()?;
    if value.is_nan() || value < 0.0 {
        return Err(Error::invalid_argument(format!(
            "lambda must be greater or equal to 0, but found to be {value}."
        )));
    }
    floats(dest, a, "softshrink", |iter| loops::softshrink(iter, lambda))
}

fn hardshrink(dest: Dest<'_>, a: &Tensor, lambda: Scalar) -> Result<Made> {
    floats(dest, a, "hardshrink", |iter| loops::hardshrink(iter, lambda))
}

fn threshold(dest: Dest<'_>, a: &Tensor, threshold: Scalar, value: Scalar) -> Result<Made> {
    Dtypes::NUMBERS.check("threshold", a.dtype())?;
    let iter = TensorIter::binary(dest, a, a, Config::SAME)?;
    if !iter.is_meta() {
        loops::threshold(&iter, threshold, value)?;
    }
    iter.finish()
}

fn log_sigmoid_forward(output: Dest<'_>, buffer: Dest<'_>, a: &Tensor) -> Result<(Made, Made)> {
    let buffer = floats(buffer, a, "log_sigmoid", loops::log_sigmoid_buffer)?;
    Ok((floats(output, a, "log_sigmoid", loops::log_sigmoid)?, buffer))
}
