//! Losses element by element, and their gradients.

use c10_core::{ScalarType, bf16, f16};

use super::reduction::check_out_dtype;
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::{self, dispatch};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::reduce::{RealElement, Reduced};
use crate::math::Float;
use crate::tensor::{Tensor, TensorOptions};

/// What is done with the losses of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    None,
    Mean,
    Sum,
}

impl Summary {
    pub(super) fn of(reduction: i64) -> Result<Self> {
        match reduction {
            0 => Ok(Self::None),
            1 => Ok(Self::Mean),
            2 => Ok(Self::Sum),
            other => Err(Error::invalid_argument(format!("{other} is no reduction: 0, 1 and 2 are"))),
        }
    }

    /// Sums up a tensor of losses by operators.
    pub(super) fn apply(self, losses: Tensor) -> Result<Tensor> {
        match self {
            Self::None => Ok(losses),
            Self::Mean => losses.mean(),
            Self::Sum => losses.sum(),
        }
    }

    /// Makes the losses, and sums them up into `dest`.
    fn run(self, dest: Dest<'_>, make: impl FnOnce(Dest<'_>) -> Result<Made>) -> Result<Made> {
        if self == Self::None {
            return make(dest);
        }
        let losses = make(Dest::New)?.new_tensor();
        check_out_dtype(dest, losses.dtype())?;
        match (self, dest.given()) {
            (Self::Mean, Some(out)) => {
                handles::MEAN_DTYPE_OUT.call(&losses, None, out).map(|()| Made::written())
            }
            (_, Some(out)) => handles::SUM_OUT.call(&losses, None, out).map(|()| Made::written()),
            (_, None) => self.apply(losses).map(Made::new),
        }
    }

    /// What the gradient of each element's loss is divided by.
    fn share(self, x: &Tensor) -> f64 {
        if self == Self::Mean { 1.0 / x.numel() as f64 } else { 1.0 }
    }
}

/// A loop over two or three floats, computed in `f32` at least.
macro_rules! floats {
    ($iter:expr, $name:literal, $real:ident, |$a:ident, $b:ident| $body:expr) => {
        dispatch!($iter.common_dtype(), $name, [f16, bf16, f32, f64], T => {
            type $real = <T as RealElement>::Real;
            loops::binary(&$iter, move |$a: T, $b: T| {
                let ($a, $b) = ($a.widen(), $b.widen());
                T::narrow($body)
            })
        })
    };
    ($iter:expr, $name:literal, $real:ident, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        dispatch!($iter.common_dtype(), $name, [f16, bf16, f32, f64], T => {
            type $real = <T as RealElement>::Real;
            loops::ternary(&$iter, move |$a: T, $b: T, $c: T| {
                let ($a, $b, $c) = ($a.widen(), $b.widen(), $c.widen());
                T::narrow($body)
            })
        })
    };
}

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, mse, (x: &Tensor, target: &Tensor, reduction: i64),
        functional "mse_loss", out "mse_loss.out");
    register_triple!(lib, mse_backward, (grad: &Tensor, x: &Tensor, target: &Tensor, reduction: i64),
        functional "mse_loss_backward", out "mse_loss_backward.grad_input");
    register_triple!(lib, smooth_l1, (x: &Tensor, target: &Tensor, reduction: i64, beta: f64),
        functional "smooth_l1_loss", out "smooth_l1_loss.out");
    register_triple!(lib, smooth_l1_backward,
        (grad: &Tensor, x: &Tensor, target: &Tensor, reduction: i64, beta: f64),
        functional "smooth_l1_loss_backward", out "smooth_l1_loss_backward.grad_input");
    register_triple!(lib, huber, (x: &Tensor, target: &Tensor, reduction: i64, delta: f64),
        functional "huber_loss", out "huber_loss.out");
    register_triple!(lib, huber_backward, (grad: &Tensor, x: &Tensor, target: &Tensor, reduction: i64, delta: f64),
        functional "huber_loss_backward", out "huber_loss_backward.out");
    register_triple!(lib, soft_margin, (x: &Tensor, target: &Tensor, reduction: i64),
        functional "soft_margin_loss", out "soft_margin_loss.out");
    register_triple!(lib, soft_margin_backward, (grad: &Tensor, x: &Tensor, target: &Tensor, reduction: i64),
        functional "soft_margin_loss_backward", out "soft_margin_loss_backward.grad_input");
    register_triple!(lib, cross_entropy,
        (x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64),
        functional "binary_cross_entropy", out "binary_cross_entropy.out");
    register_triple!(lib, cross_entropy_backward,
        (grad: &Tensor, x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64),
        functional "binary_cross_entropy_backward", out "binary_cross_entropy_backward.grad_input");
    lib.cpu_meta("binary_cross_entropy_with_logits", with_logits)?;
    register_composites(lib)
}

fn register_composites(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("l1_loss", |x: &Tensor, target: &Tensor, reduction: i64| {
        Summary::of(reduction)?.apply(x.sub(target)?.abs()?)
    })?;
    lib.composite("kl_div", kl_div)?;
    lib.composite("poisson_nll_loss", poisson_nll)?;
    lib.composite("hinge_embedding_loss", |x: &Tensor, target: &Tensor, margin: f64, reduction: i64| {
        let zeros = x.zeros_like(TensorOptions::default())?;
        let hinge = x.neg()?.add_scalar(margin)?.clamp_min(0.0)?;
        let far = target.ne_scalar(1.0)?.where_self(&hinge, &zeros)?;
        let near = target.ne_scalar(-1.0)?.where_self(x, &zeros)?;
        Summary::of(reduction)?.apply(far.add(&near)?)
    })?;
    lib.composite(
        "margin_ranking_loss",
        |a: &Tensor, b: &Tensor, target: &Tensor, margin: f64, reduction: i64| {
            let loss = target.neg()?.mul(&a.sub(b)?)?.add_scalar(margin)?.clamp_min(0.0)?;
            Summary::of(reduction)?.apply(loss)
        },
    )
}

/// A loss of two tensors.
fn loss(
    dest: Dest<'_>,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    kernel: impl FnOnce(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    Summary::of(reduction)?.run(dest, |dest| {
        let iter = TensorIter::binary(dest, x, target, Config::PROMOTE)?;
        if !iter.is_meta() {
            kernel(&iter)?;
        }
        iter.finish()
    })
}

/// A gradient of three tensors, the last of which is that of the result.
fn gradient(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    kernel: impl FnOnce(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    let inputs = [Input::Tensor(x), Input::Tensor(target), Input::Tensor(grad)];
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        kernel(&iter)?;
    }
    iter.finish()
}

fn mse(dest: Dest<'_>, x: &Tensor, target: &Tensor, reduction: i64) -> Result<Made> {
    loss(dest, x, target, reduction, |iter| {
        floats!(iter, "mse_cpu", Real, |a, b| {
            let away: Real = a - b;
            away * away
        })
    })
}

fn mse_backward(dest: Dest<'_>, grad: &Tensor, x: &Tensor, target: &Tensor, reduction: i64) -> Result<Made> {
    let factor = 2.0 * Summary::of(reduction)?.share(x);
    gradient(dest, grad, x, target, |iter| {
        floats!(iter, "mse_backward_cpu_out", Real, |a, b, g| <Real as Float>::of(factor) * (a - b) * g)
    })
}

fn smooth_l1(dest: Dest<'_>, x: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<Made> {
    if beta < 0.0 {
        return Err(Error::invalid_argument("smooth_l1_loss does not support negative values for beta."));
    }
    loss(dest, x, target, reduction, |iter| {
        floats!(iter, "smooth_l1_cpu", Real, |a, b| {
            let (beta, half) = (<Real as Float>::of(beta), <Real as Float>::of(0.5));
            let away = Float::abs(a - b);
            if away < beta { half * away * away / beta } else { away - half * beta }
        })
    })
}

fn smooth_l1_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Made> {
    let share = Summary::of(reduction)?.share(x);
    gradient(dest, grad, x, target, |iter| {
        floats!(iter, "smooth_l1_backward_cpu_out", Real, |a, b, g| {
            let (beta, share) = (<Real as Float>::of(beta), <Real as Float>::of(share));
            let away: Real = a - b;
            if away <= -beta {
                -share * g
            } else if away >= beta {
                share * g
            } else {
                share * away * g / beta
            }
        })
    })
}

fn huber(dest: Dest<'_>, x: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Made> {
    if delta <= 0.0 {
        return Err(Error::invalid_argument("huber_loss does not support non-positive values for delta."));
    }
    loss(dest, x, target, reduction, |iter| {
        floats!(iter, "huber_cpu", Real, |a, b| {
            let (delta, half) = (<Real as Float>::of(delta), <Real as Float>::of(0.5));
            let away = Float::abs(a - b);
            if away <= delta { half * away * away } else { delta * (away - half * delta) }
        })
    })
}

fn huber_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Made> {
    let share = Summary::of(reduction)?.share(x);
    gradient(dest, grad, x, target, |iter| {
        floats!(iter, "huber_backward_cpu_out", Real, |a, b, g| {
            let (delta, share) = (<Real as Float>::of(delta), <Real as Float>::of(share));
            let away: Real = a - b;
            if away <= -delta {
                -share * g * delta
            } else if away >= delta {
                share * g * delta
            } else {
                share * away * g
            }
        })
    })
}

fn soft_margin(dest: Dest<'_>, x: &Tensor, target: &Tensor, reduction: i64) -> Result<Made> {
    loss(dest, x, target, reduction, |iter| {
        floats!(iter, "soft_margin_cpu", Real, |a, b| {
            // PyTorch's is made of operators, each of which rounds.
            let z: Real = T::narrow(Float::exp(T::narrow(-b * a).widen())).widen();
            Float::log1p(z)
        })
    })
}

fn soft_margin_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Made> {
    let share = Summary::of(reduction)?.share(x);
    gradient(dest, grad, x, target, |iter| {
        floats!(iter, "soft_margin_backward_cpu", Real, |a, b, g| {
            let z = Float::exp(-b * a);
            <Real as Float>::of(-share) * b * g * z / (z + <Real as Float>::ONE)
        })
    })
}

/// Both must have the sizes of the other; the elements of `x` are probabilities.
fn check_cross_entropy(x: &Tensor, target: &Tensor) -> Result<()> {
    if x.sizes() != target.sizes() {
        return Err(Error::shape(format!(
            "Using a target size ({:?}) that is different to the input size ({:?}) is deprecated. Please ensure \
             they have the same size.",
            target.sizes(),
            x.sizes()
        )));
    }
    Ok(())
}

fn cross_entropy(
    dest: Dest<'_>,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Made> {
    check_cross_entropy(x, target)?;
    check_probabilities(x)?;
    let make = |dest: Dest<'_>| {
        loss(dest, x, target, 0, |iter| {
            floats!(iter, "binary_cross_entropy", Real, |a, b| {
                let floor = <Real as Float>::of(-100.0);
                let one = <Real as Float>::ONE;
                let (yes, no) = (Float::ln(a), Float::log1p(-a));
                (b - one) * Float::maximum(no, floor) - b * Float::maximum(yes, floor)
            })
        })
    };
    Summary::of(reduction)?.run(dest, |dest| weighted(dest, weight, make))
}

/// The losses times weights, if there are any.
fn weighted(
    dest: Dest<'_>,
    weight: Option<&Tensor>,
    make: impl FnOnce(Dest<'_>) -> Result<Made>,
) -> Result<Made> {
    let Some(weight) = weight else { return make(dest) };
    let made = make(Dest::New)?.new_tensor();
    let iter = TensorIter::binary(dest, &made, weight, Config::PROMOTE)?;
    if !iter.is_meta() {
        floats!(iter, "binary_cross_entropy", Real, |a, b| {
            let product: Real = a * b;
            product
        })?;
    }
    iter.finish()
}

fn check_probabilities(x: &Tensor) -> Result<()> {
    if x.is_meta() || !x.dtype().is_floating_point() || x.numel() == 0 {
        return Ok(());
    }
    let wide = x.to_dtype(ScalarType::Float64)?;
    if wide.to_vec::<f64>()?.into_iter().any(|p| !(0.0..=1.0).contains(&p) && !p.is_nan()) {
        return Err(Error::invalid_argument("all elements of input should be between 0 and 1"));
    }
    Ok(())
}

fn cross_entropy_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Made> {
    check_cross_entropy(x, target)?;
    let share = Summary::of(reduction)?.share(x);
    weighted(dest, weight, |dest| {
        gradient(dest, grad, x, target, |iter| {
            floats!(iter, "binary_cross_entropy_backward", Real, |a, b, g| {
                let (one, least) = (<Real as Float>::ONE, <Real as Float>::of(1e-12));
                <Real as Float>::of(share) * g * (a - b) / Float::maximum((one - a) * a, least)
            })
        })
    })
}

/// `(1 − t)·x + (1 + (p − 1)·t)·(ln(1 + exp(−|x|)) + max(−x, 0))`.
fn with_logits(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    if x.sizes() != target.sizes() {
        return Err(Error::shape(format!(
            "output with shape {:?} doesn't match the target shape {:?}",
            x.sizes(),
            target.sizes()
        )));
    }
    let summary = Summary::of(reduction)?;
    let make = |dest: Dest<'_>| {
        let none = Input::Number(1.0.into());
        let inputs = [x.into(), target.into(), pos_weight.map_or(none, Input::Tensor)];
        let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
        if !iter.is_meta() {
            floats!(iter, "binary_cross_entropy_with_logits", Real, |a, b, p| {
                let (zero, one) = (<Real as Float>::ZERO, <Real as Float>::ONE);
                let log = Float::log1p(Float::exp(-Float::abs(a))) + Float::maximum(-a, zero);
                (one - b) * a + (one + (p - one) * b) * log
            })?;
        }
        iter.finish()
    };
    summary.run(Dest::New, |dest| weighted(dest, weight, make)).map(Made::new_tensor)
}

fn kl_div(x: &Tensor, target: &Tensor, reduction: i64, log_target: bool) -> Result<Tensor> {
    let loss = if log_target {
        target.exp()?.mul(&target.sub(x)?)?
    } else {
        target.xlogy(target)?.sub(&target.mul(x)?)?
    };
    Summary::of(reduction)?.apply(loss)
}

fn poisson_nll(
    x: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: i64,
) -> Result<Tensor> {
    let mut loss = if log_input {
        x.exp()?.sub(&target.mul(x)?)?
    } else {
        x.sub(&target.mul(&x.add_scalar(eps)?.log()?)?)?
    };
    if full {
        // Stirling's approximation, for targets above 1.
        let log = target.log()?;
        let root = target.mul_scalar(2.0 * std::f64::consts::PI)?.log()?.mul_scalar(0.5)?;
        let stirling = target.mul(&log)?.sub(target)?.add(&root)?;
        let stirling = target.le_scalar(1.0)?.where_scalar_self(0.0, &stirling)?;
        loss = loss.add(&stirling)?;
    }
    Summary::of(reduction)?.apply(loss)
}
