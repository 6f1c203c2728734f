//! Gradients of activation functions, element by element.

use c10_core::Scalar;

use super::activation::is_tanh;
use super::dtypes::Dtypes;
use super::forms::dtype_after;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::activation as loops;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, hardtanh, (grad: &Tensor, x: &Tensor, min: Scalar, max: Scalar),
        functional "hardtanh_backward", out "hardtanh_backward.grad_input");
    register_triple!(lib, elu,
        (grad: &Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: bool, x: &Tensor),
        functional "elu_backward", out "elu_backward.grad_input");
    register_triple!(lib, leaky_relu, (grad: &Tensor, x: &Tensor, slope: Scalar, is_result: bool),
        functional "leaky_relu_backward", out "leaky_relu_backward.grad_input");
    register_triple!(lib, gelu, (grad: &Tensor, x: &Tensor, approximate: &str),
        functional "gelu_backward", out "gelu_backward.grad_input");
    register_triple!(lib, silu, (grad: &Tensor, x: &Tensor),
        functional "silu_backward", out "silu_backward.grad_input");
    register_triple!(lib, mish, (grad: &Tensor, x: &Tensor), functional "mish_backward");
    register_triple!(lib, hardswish, (grad: &Tensor, x: &Tensor), functional "hardswish_backward");
    register_triple!(lib, hardsigmoid, (grad: &Tensor, x: &Tensor),
        functional "hardsigmoid_backward", out "hardsigmoid_backward.grad_input");
    register_triple!(lib, softplus, (grad: &Tensor, x: &Tensor, beta: Scalar, threshold: Scalar),
        functional "softplus_backward", out "softplus_backward.grad_input");
    register_triple!(lib, shrink, (grad: &Tensor, x: &Tensor, lambda: Scalar),
        functional "softshrink_backward", out "softshrink_backward.grad_input",
        functional "hardshrink_backward", out "hardshrink_backward.grad_input");
    register_triple!(lib, threshold, (grad: &Tensor, x: &Tensor, level: Scalar),
        functional "threshold_backward", out "threshold_backward.grad_input");
    register_triple!(lib, log_sigmoid, (grad: &Tensor, x: &Tensor, buffer: &Tensor),
        functional "log_sigmoid_backward", out "log_sigmoid_backward.grad_input");
    register_triple!(lib, sigmoid, (grad: &Tensor, y: &Tensor),
        functional "sigmoid_backward", out "sigmoid_backward.grad_input");
    register_triple!(lib, tanh, (grad: &Tensor, y: &Tensor),
        functional "tanh_backward", out "tanh_backward.grad_input");
    register_triple!(lib, logit, (grad: &Tensor, x: &Tensor, eps: Option<f64>),
        functional "logit_backward", out "logit_backward.grad_input");
    lib.cpu_meta("_prelu_kernel_backward", prelu)
}

fn prelu(grad: &Tensor, x: &Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
    Dtypes::FLOATS.check("prelu_backward", x.dtype())?;
    let inputs = [x.into(), weight.into(), grad.into()];
    let of_x = TensorIter::new(&[Dest::New], &inputs, Config::SAME)?;
    let of_weight = TensorIter::new(&[Dest::New], &inputs, Config::SAME)?;
    if !of_x.is_meta() {
        loops::prelu_backward(&of_x)?;
        loops::prelu_backward_weight(&of_weight)?;
    }
    Ok((of_x.finish()?.new_tensor(), of_weight.finish()?.new_tensor()))
}

/// A loop over the gradient of the output and the input, or the output.
fn gradient(
    dest: Dest<'_>,
    [grad, x]: [&Tensor; 2],
    (name, takes): (&str, Dtypes),
    kernel: impl FnOnce(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    takes.check(name, dtype_after(&[grad.into(), x.into()], Config::PROMOTE)?)?;
    let iter = TensorIter::binary(dest, grad, x, Config::PROMOTE)?;
    if !iter.is_meta() {
        kernel(&iter)?;
    }
    iter.finish()
}

fn hardtanh(dest: Dest<'_>, grad: &Tensor, x: &Tensor, min: Scalar, max: Scalar) -> Result<Made> {
    gradient(dest, [grad, x], ("hardtanh_backward", Dtypes::FLOATS), |iter| {
        loops::hardtanh_backward(iter, min, max)
    })
}

fn elu(
    dest: Dest<'_>,
    grad: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Made> {
    if is_result && alpha.to::<f64>()? < 0.0 {
        return Err(Error::invalid_argument(
            "In-place elu backward calculation is triggered with a negative slope which is not supported.",
        ));
    }
    gradient(dest, [grad, x], ("elu_backward", Dtypes::FLOATS), |iter| {
        loops::elu_backward(iter, [alpha, scale, input_scale], is_result)
    })
}

fn leaky_relu(dest: Dest<'_>, grad: &Tensor, x: &Tensor, slope: Scalar, is_result: bool) -> Result<Made> {
    if is_result && slope.to::<f64>()? < 0.0 {
        return Err(Error::invalid_argument(
            "In-place leakyReLU backward calculation is triggered with a negative slope which is not supported.",
        ));
    }
    gradient(dest, [grad, x], ("leaky_relu_backward", Dtypes::FLOATS), |iter| {
        loops::leaky_relu_backward(iter, slope)
    })
}

fn gelu(dest: Dest<'_>, grad: &Tensor, x: &Tensor, approximate: &str) -> Result<Made> {
    let by_tanh = is_tanh(approximate)?;
    let kernel = if by_tanh { loops::gelu_tanh_backward } else { loops::gelu_backward };
    gradient(dest, [grad, x], ("gelu_backward", Dtypes::FLOATS), kernel)
}

fn silu(dest: Dest<'_>, grad: &Tensor, x: &Tensor) -> Result<Made> {
    gradient(dest, [grad, x], ("silu_backward", Dtypes::FLOATS_COMPLEX), loops::silu_backward)
}

fn mish(dest: Dest<'_>, grad: &Tensor, x: &Tensor) -> Result<Made> {
    gradient(dest, [grad, x], ("mish_backward", Dtypes::FLOATS), loops::mish_backward)
}

fn hardswish(dest: Dest<'_>, grad: &Tensor, x: &Tensor) -> Result<Made> {
    gradient(dest, [grad, x], ("hardswish_backward", Dtypes::FLOATS), loops::hardswish_backward)
}

fn hardsigmoid(dest: Dest<'_>, grad: &Tensor, x: &Tensor) -> Result<Made> {
    gradient(dest, [grad, x], ("hardsigmoid_backward", Dtypes::FLOATS), loops::hardsigmoid_backward)
}

fn softplus(dest: Dest<'_>, grad: &Tensor, x: &Tensor, beta: Scalar, threshold: Scalar) -> Result<Made> {
    gradient(dest, [grad, x], ("softplus_backward", Dtypes::FLOATS), |iter| {
        loops::softplus_backward(iter, beta, threshold)
    })
}

fn shrink(dest: Dest<'_>, grad: &Tensor, x: &Tensor, lambda: Scalar) -> Result<Made> {
    gradient(dest, [grad, x], ("shrink_backward", Dtypes::FLOATS), |iter| {
        loops::shrink_backward(iter, lambda)
    })
}

fn threshold(dest: Dest<'_>, grad: &Tensor, x: &Tensor, threshold: Scalar) -> Result<Made> {
    let dtype = dtype_after(&[x.into(), grad.into()], Config::PROMOTE)?;
    Dtypes::NUMBERS.check("threshold", dtype)?;
    let iter = TensorIter::binary(dest, x, grad, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::threshold(&iter, threshold, Scalar::Int(0))?;
    }
    iter.finish()
}

fn log_sigmoid(dest: Dest<'_>, grad: &Tensor, x: &Tensor, buffer: &Tensor) -> Result<Made> {
    Dtypes::FLOATS.check("log_sigmoid_backward", x.dtype())?;
    // Other devices than the host make no buffer.
    let buffer = if buffer.numel() == 0 { x } else { buffer };
    let iter = TensorIter::new(&[dest], &[grad.into(), x.into(), buffer.into()], Config::SAME)?;
    if !iter.is_meta() {
        loops::log_sigmoid_backward(&iter)?;
    }
    iter.finish()
}

fn sigmoid(dest: Dest<'_>, grad: &Tensor, y: &Tensor) -> Result<Made> {
    gradient(dest, [grad, y], ("sigmoid_backward", Dtypes::FLOATS_COMPLEX), loops::sigmoid_backward)
}

fn tanh(dest: Dest<'_>, grad: &Tensor, y: &Tensor) -> Result<Made> {
    gradient(dest, [grad, y], ("tanh_backward", Dtypes::FLOATS_COMPLEX), loops::tanh_backward)
}

fn logit(dest: Dest<'_>, grad: &Tensor, x: &Tensor, eps: Option<f64>) -> Result<Made> {
    gradient(dest, [grad, x], ("logit_backward", Dtypes::FLOATS), |iter| {
        loops::logit_backward(iter, eps.filter(|&eps| eps >= 0.0))
    })
}
