//! Losses of classes.

use c10_core::ScalarType;

use super::loss::Summary;
use super::norm::tensor_of;
use super::reduction::{check_out_dtype, split_at};
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::class_loss::{self, Targets};
use crate::kernels::cpu::norm::numbers;
use crate::kernels::cpu::scan::Split;
use crate::tensor::{Dims, New, Tensor};

type Maybe<'a> = Option<&'a Tensor>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    for (name, out_name) in
        [("nll_loss_forward", "nll_loss_forward.output"), ("nll_loss2d_forward", "nll_loss2d_forward.output")]
    {
        lib.cpu_meta(
            name,
            |x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignored: i64| {
                let (loss, total) = forward([Dest::New; 2], x, target, weight, reduction, ignored)?;
                Ok((loss.new_tensor(), total.new_tensor()))
            },
        )?;
        lib.cpu_meta(
            out_name,
            |x: &Tensor,
             target: &Tensor,
             weight: Option<&Tensor>,
             reduction: i64,
             ignored: i64,
             loss: &Tensor,
             total: &Tensor| {
                forward([Dest::Out(loss), Dest::Out(total)], x, target, weight, reduction, ignored).map(drop)
            },
        )?;
    }
    register_triple!(lib, backward,
        (grad: &Tensor, x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignored: i64,
         total: &Tensor),
        functional "nll_loss_backward", out "nll_loss_backward.grad_input");
    register_triple!(lib, backward,
        (grad: &Tensor, x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignored: i64,
         total: &Tensor),
        functional "nll_loss2d_backward", out "nll_loss2d_backward.grad_input");
    lib.composite("nll_loss", nll_loss)?;
    lib.composite("nll_loss2d", nll_loss2d)?;
    lib.all_backends(
        "nll_loss.out",
        |x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignored: i64, out: &Tensor| {
            let total = New::contiguous([], x.dtype(), x.device()).make()?;
            handles::NLL_LOSS_FORWARD_OUTPUT.call(x, target, weight, reduction, ignored, out, &total)
        },
    )?;
    lib.all_backends(
        "nll_loss2d.out",
        |x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignored: i64, out: &Tensor| {
            let total = New::contiguous([], x.dtype(), x.device()).make()?;
            handles::NLL_LOSS2D_FORWARD_OUTPUT.call(x, target, weight, reduction, ignored, out, &total)
        },
    )?;
    lib.composite("nll_loss_nd", nll_loss_nd)?;
    lib.composite("cross_entropy_loss", cross_entropy_loss)
}

/// Weights are one for each class.
fn check_weight(weight: Maybe<'_>, classes: i64) -> Result<()> {
    let Some(sizes) = weight.map(Tensor::sizes).filter(|sizes| *sizes != [classes]) else { return Ok(()) };
    Err(Error::shape(format!(
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of \
         shape: {sizes:?}"
    )))
}

/// Where the classes are: samples, classes, places; and the sizes of what is left without them.
fn shape_of(x: &Tensor, target: &Tensor, weight: Maybe<'_>) -> Result<(Split, Dims)> {
    let sizes = x.sizes();
    let class = usize::from(sizes.len() > 1);
    let left: Dims =
        sizes.iter().enumerate().filter(|&(dim, _)| dim != class).map(|(_, &size)| size).collect();
    let one = sizes.len() == 1 && target.numel() == 1;
    if sizes.is_empty() || (target.sizes() != left && !one) {
        return Err(Error::shape(format!(
            "size mismatch (got input: {sizes:?}, target: {:?})",
            target.sizes()
        )));
    }
    check_weight(weight, sizes[class])?;
    if !matches!(target.dtype(), ScalarType::Int64 | ScalarType::UInt8) {
        return Err(Error::dtype(format!(
            "expected scalar type Long but found {}",
            target.dtype().c10_name()
        )));
    }
    Ok((split_at(&sizes, class), left))
}

fn targets_of(target: &Tensor, weight: Maybe<'_>, ignored: i64, classes: usize) -> Result<Targets> {
    let targets = Targets {
        classes: target.to_dtype(ScalarType::Int64)?.to_vec::<i64>()?,
        weights: numbers(weight)?,
        ignored,
    };
    targets.check(classes)?;
    Ok(targets)
}

fn forward(
    [loss, total]: [Dest<'_>; 2],
    x: &Tensor,
    target: &Tensor,
    weight: Maybe<'_>,
    reduction: i64,
    ignored: i64,
) -> Result<(Made, Made)> {
    let summary = Summary::of(reduction)?;
    let (shape, left) = shape_of(x, target, weight)?;
    check_out_dtype(loss, x.dtype())?;
    check_out_dtype(total, x.dtype())?;
    let targets = match x.is_meta() {
        true => None,
        false => Some(targets_of(target, weight, ignored, shape.1)?),
    };
    let each = summary == Summary::None && x.rank() > 1;
    let sizes = if each { left } else { Dims::new() };
    let loss = loss.output(New::contiguous(sizes, x.dtype(), x.device()), &[x, target])?;
    let total = total.output(New::contiguous([], x.dtype(), x.device()), &[x, target])?;
    let Some(targets) = targets else { return Ok((loss.finish()?, total.finish()?)) };
    let dense = x.to_contiguous()?;
    let mut weight_sum = 0.0;
    if each {
        class_loss::losses(&dense, &loss, shape, &targets)?;
    } else {
        let (sum, weights) = class_loss::loss_sum(&dense, shape, &targets)?;
        weight_sum = weights;
        let value = if summary == Summary::Mean { sum / weights } else { sum };
        loss.copy_from(&tensor_of(&[value], &[], x.dtype())?)?;
    }
    total.copy_from(&tensor_of(&[weight_sum], &[], x.dtype())?)?;
    Ok((loss.finish()?, total.finish()?))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn backward(
    dest: Dest<'_>,
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Maybe<'_>,
    reduction: i64,
    ignored: i64,
    total: &Tensor,
) -> Result<Made> {
    let summary = Summary::of(reduction)?;
    let (shape, left) = shape_of(x, target, weight)?;
    let each = summary == Summary::None && x.rank() > 1;
    let fits = if each { grad.sizes() == *left } else { grad.numel() == 1 };
    if !fits || total.numel() != 1 {
        return Err(Error::shape(format!("a gradient of sizes {:?} of a loss of other sizes", grad.sizes())));
    }
    check_out_dtype(dest, x.dtype())?;
    let targets = match x.is_meta() {
        true => None,
        false => Some(targets_of(target, weight, ignored, shape.1)?),
    };
    let out = dest.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[grad, x, target, total])?;
    if let Some(targets) = targets {
        let share = if summary == Summary::Mean { 1.0 / total.item()?.to::<f64>()? } else { 1.0 };
        let grad = grad.to_dtype(x.dtype())?.to_contiguous()?;
        class_loss::gradient(&grad, &out, shape, &targets, share)?;
    }
    out.finish()
}

fn nll_loss(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignored: i64,
) -> Result<Tensor> {
    handles::NLL_LOSS_FORWARD.call(x, target, weight, reduction, ignored).map(|made| made.0)
}

fn nll_loss2d(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignored: i64,
) -> Result<Tensor> {
    handles::NLL_LOSS2D_FORWARD.call(x, target, weight, reduction, ignored).map(|made| made.0)
}

fn nll_loss_nd(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignored: i64,
) -> Result<Tensor> {
    let sizes = x.sizes();
    match sizes.len() {
        0 => Err(Error::shape("Expected 1 or more dimensions (got 0)")),
        1 | 2 => nll_loss(x, target, weight, reduction, ignored),
        4 => nll_loss2d(x, target, weight, reduction, ignored),
        _ => {
            shape_of(x, target, weight)?;
            let places = sizes[2..].iter().product();
            let image = x.reshape(&[sizes[0], sizes[1], 1, places])?;
            let target_image = target.reshape(&[sizes[0], 1, places])?;
            let loss = nll_loss2d(&image, &target_image, weight, reduction, ignored)?;
            if reduction == 0 { loss.reshape(&target.sizes()) } else { Ok(loss) }
        }
    }
}

fn cross_entropy_loss(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignored: i64,
    smoothing: f64,
) -> Result<Tensor> {
    if x.rank() == 0 {
        return Err(Error::shape("cross_entropy_loss needs a dimension of classes"));
    }
    let class_dim = i64::from(x.rank() > 1);
    let classes = x.sizes()[class_dim as usize];
    check_weight(weight, classes)?;
    let log = handles::LOG_SOFTMAX_INT.call(x, class_dim, None)?;
    // Weights, to be multiplied with tensors of the input's shape.
    let mut shape = vec![1; x.rank()];
    shape[class_dim as usize] = classes;
    let weights = weight.map(|weight| weight.reshape(&shape)).transpose()?;
    let weighted = |log: Tensor| weights.as_ref().map_or(Ok(log.clone()), |weights| log.mul(weights));
    let over_classes = |x: Tensor| handles::SUM_DIM_INTLIST.call(&x, Some(&[class_dim]), false, None)?.neg();
    if x.sizes() == *target.sizes() {
        if !target.dtype().is_floating_point() {
            return Err(Error::dtype(format!(
                "Expected floating point type for target with class probabilities, got {}",
                target.dtype().c10_name()
            )));
        }
        let smooth = match smoothing > 0.0 {
            true => target.mul_scalar(1.0 - smoothing)?.add_scalar(smoothing / classes as f64)?,
            false => target.clone(),
        };
        let losses = over_classes(weighted(log)?.mul(&smooth)?)?;
        return match Summary::of(reduction)? {
            Summary::Mean => losses.sum()?.div_scalar(x.numel() as f64 / classes as f64),
            summary => summary.apply(losses),
        };
    }
    let loss = nll_loss_nd(&log, target, weight, reduction, ignored)?;
    if smoothing <= 0.0 {
        return Ok(loss);
    }
    let losses = over_classes(weighted(log)?)?;
    let is_ignored = target.eq_scalar(ignored)?;
    let losses = is_ignored.where_scalar_self(0.0, &losses)?;
    let smooth = match Summary::of(reduction)? {
        Summary::Mean => {
            let counted = is_ignored.logical_not()?.to(x.dtype())?;
            let counts = match weight {
                None => counted,
                Some(weight) => {
                    let places = is_ignored.where_scalar_self(0_i64, target)?.reshape(&[-1])?;
                    weight.index_select(0, &places)?.reshape(&target.sizes())?.mul(&counted)?
                }
            };
            losses.sum()?.div(&counts.sum()?)?
        }
        summary => summary.apply(losses)?,
    };
    loss.mul_scalar(1.0 - smoothing)?.add(&smooth.mul_scalar(smoothing / classes as f64)?)
}
