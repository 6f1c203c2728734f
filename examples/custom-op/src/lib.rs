//! An operator from outside of `aten`: `scale² · ln cosh(x / scale)`, a loss that is a parabola about zero and a
//! straight line far from it. It has a kernel for the CPU, one that makes sizes and dtypes alone, and a derivative.
//!
//! ```
//! use aten::Tensor;
//! use tensorplay_autograd::TensorAutograd;
//!
//! let x = Tensor::from_elements(&[0.0, 100.0])?.requires_grad_(true)?;
//! let y = custom_op::log_cosh(&x, 2.0)?;
//! y.sum()?.backward()?;
//! assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [0.0, 2.0]);
//! # Ok::<(), aten::Error>(())
//! ```

use std::sync::OnceLock;

use aten::dispatch::{CustomOp, Dispatcher, Op, Value};
use aten::{Error, ErrorKind, Result, Tensor};
use c10_core::{DeviceType, ScalarType};
use tensorplay_autograd::CustomOpAutograd;

static LOG_COSH: Op<fn(&'static Tensor, f64) -> Tensor> = Op::new("examples::log_cosh", "");

/// `scale² · ln cosh(x / scale)` of each element.
///
/// # Errors
/// [`ErrorKind::Dtype`] for other elements than floats of 32 or 64 bits; [`ErrorKind::InvalidArgument`] for a scale
/// that is not above zero.
pub fn log_cosh(x: &Tensor, scale: f64) -> Result<Tensor> {
    register()?;
    LOG_COSH.call(x, scale)
}

/// Makes the operator known to the process. More calls do nothing.
///
/// # Errors
/// [`ErrorKind::Registration`] when something else has taken its name; nothing is registered then.
pub fn register() -> Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| register_all().map_err(|error| error.to_string()));
    done.clone().map_err(|text| Error::new(ErrorKind::Registration, text))
}

fn register_all() -> Result<()> {
    let mut operator = CustomOp::builder("examples::log_cosh(Tensor x, float scale) -> Tensor")
        .kernel(DeviceType::Cpu, |x: &Tensor, scale: f64| -> Result<Tensor> {
            check(x, scale)?;
            match x.dtype() {
                ScalarType::Float64 => of_each(&x.to_vec::<f64>()?, x, |x| value(x, scale)),
                _ => of_each(&x.to_vec::<f32>()?, x, |x| value(f64::from(x), scale) as f32),
            }
        })
        .fake(|x: &Tensor, scale: f64| -> Result<Tensor> {
            check(x, scale)?;
            x.empty_like(aten::TensorOptions::default())
        })
        .register(Dispatcher::global())?;
    operator.register_autograd(
        |ctx, arguments, _| match arguments {
            [Value::Tensor(x), Value::Scalar(scale)] => {
                ctx.save_for_backward([x]);
                scale.to::<f64>().map_err(Error::from)
            }
            _ => Err(Error::invalid_argument("log_cosh takes a tensor and a number")),
        },
        // Of operators that are differentiable themselves: so is this.
        |ctx, scale: &f64, grads| {
            let slope = ctx.saved_tensor(0)?.div_scalar(*scale)?.tanh()?.mul_scalar(*scale)?;
            Ok(vec![Some(grads.tensor(0)?.mul(&slope)?), None])
        },
    )?;
    operator.keep();
    Ok(())
}

fn check(x: &Tensor, scale: f64) -> Result<()> {
    if !matches!(x.dtype(), ScalarType::Float32 | ScalarType::Float64) {
        return Err(Error::dtype("the elements must be floats of 32 or 64 bits"));
    }
    if scale > 0.0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("the scale must be above zero, and is {scale}")))
}

/// Without the overflow that `cosh` has.
fn value(x: f64, scale: f64) -> f64 {
    let magnitude = (x / scale).abs();
    scale * scale * (magnitude + (-2.0 * magnitude).exp().ln_1p() - std::f64::consts::LN_2)
}

fn of_each<T: c10_core::Element>(elements: &[T], like: &Tensor, f: impl Fn(T) -> T) -> Result<Tensor> {
    let results: Vec<T> = elements.iter().map(|element| f(*element)).collect();
    Tensor::from_slice(&results, &like.sizes())
}
