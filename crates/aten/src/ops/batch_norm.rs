//! Normalisation over the batch, and of instances.

use c10_core::{MemoryFormat, ScalarType};

use super::norm::{check_same_sizes, empty, in_format_of, statistics_dtype, tensor_of, wanted};
use super::reduction::store;
use super::view_copy::copied;
use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels;
use crate::kernels::cpu::norm::{self, Channels};
use crate::tensor::{New, Tensor};

type Maybe<'a> = Option<&'a Tensor>;
type Gradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);
type Three = (Tensor, Tensor, Tensor);

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_native(lib)?;
    lib.cpu_meta("_native_batch_norm_legit_functional", functional)?;
    lib.cpu_meta("native_batch_norm_backward", backward)?;
    lib.composite("batch_norm", batch_norm)?;
    lib.composite("instance_norm", instance_norm)?;
    register_with_reserve(lib)
}

/// The forms of [`native`], which differ in what may be left out.
fn register_native(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! forms {
        ($($name:literal $(, $out:literal)?: $args:tt => $call:expr;)*) => {$(
            forms!(@new $name, $args, $call);
            $(forms!(@out $out, $args, $call);)?
        )*};
        (@new $name:literal, ($($arg:ident: $type:ty),*), $call:expr) => {
            lib.cpu_meta($name, |$($arg: $type),*| -> Result<Three> { $call })?;
        };
        (@out $name:literal, ($($arg:ident: $type:ty),*), $call:expr) => {
            lib.cpu_meta(
                $name,
                |$($arg: $type,)* out: &Tensor, save_mean: &Tensor, save_invstd: &Tensor| {
                    store_all([out, save_mean, save_invstd], $call?)
                },
            )?;
        };
    }
    forms! {
        "native_batch_norm", "native_batch_norm.out":
            (x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, mean: Option<&Tensor>, var: Option<&Tensor>,
             training: bool, momentum: f64, eps: f64)
            => native(x, weight, bias, mean, var, training, momentum, eps);
        "_native_batch_norm_legit", "_native_batch_norm_legit.out":
            (x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, mean: &Tensor, var: &Tensor,
             training: bool, momentum: f64, eps: f64)
            => native(x, weight, bias, Some(mean), Some(var), training, momentum, eps);
        "_native_batch_norm_legit.no_stats", "_native_batch_norm_legit.no_stats_out":
            (x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, training: bool, momentum: f64, eps: f64)
            => native(x, weight, bias, None, None, training, momentum, eps);
        "_native_batch_norm_legit_no_training":
            (x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, mean: &Tensor, var: &Tensor,
             momentum: f64, eps: f64)
            => native(x, weight, bias, Some(mean), Some(var), false, momentum, eps);
    }
    Ok(())
}

/// Those whose fourth result is a reserve for other backends, empty here.
fn register_with_reserve(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta(
        "_batch_norm_with_update",
        |x: &Tensor,
         weight: Option<&Tensor>,
         bias: Option<&Tensor>,
         mean: &Tensor,
         var: &Tensor,
         momentum: f64,
         eps: f64|
         -> Result<(Tensor, Tensor, Tensor, Tensor)> {
            let (out, save_mean, save_invstd) =
                native(x, weight, bias, Some(mean), Some(var), true, momentum, eps)?;
            Ok((out, save_mean, save_invstd, empty([0], ScalarType::UInt8, x)?))
        },
    )?;
    lib.cpu_meta(
        "_batch_norm_no_update",
        |x: &Tensor,
         weight: Option<&Tensor>,
         bias: Option<&Tensor>,
         mean: Option<&Tensor>,
         var: Option<&Tensor>,
         momentum: f64,
         eps: f64|
         -> Result<(Tensor, Tensor, Tensor, Tensor)> {
            let (out, save_mean, save_invstd) = native(x, weight, bias, mean, var, false, momentum, eps)?;
            Ok((out, save_mean, save_invstd, empty([0], ScalarType::UInt8, x)?))
        },
    )?;
    lib.cpu_meta(
        "batch_norm_backward",
        |grad: &Tensor,
         x: &Tensor,
         weight: &Tensor,
         mean: Option<&Tensor>,
         var: Option<&Tensor>,
         save_mean: Option<&Tensor>,
         save_var: Option<&Tensor>,
         update: bool,
         eps: f64,
         mask: &[bool],
         _reserve: &Tensor| {
            backward(grad, x, Some(weight), mean, var, save_mean, save_var, update, eps, mask)
        },
    )
}

/// Copies results to given tensors, resized where they must be.
fn store_all(outs: [&Tensor; 3], made: Three) -> Result<()> {
    outs.into_iter().zip([made.0, made.1, made.2]).try_for_each(|(out, made)| store(out, &made))
}

fn check(x: &Tensor, params: [(&str, Maybe<'_>); 4]) -> Result<Channels> {
    let sizes = x.sizes();
    if sizes.len() < 2 {
        return Err(Error::shape(format!(
            "expected an input of at least 2 dimensions, and found sizes {sizes:?}"
        )));
    }
    for (name, param) in params {
        if let Some(param) = param
            && param.sizes() != [sizes[1]]
        {
            return Err(Error::shape(format!(
                "{name} should contain {} elements not {}",
                sizes[1],
                param.numel()
            )));
        }
    }
    Ok(Channels::of(&sizes))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn native(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    let params =
        [("weight", weight), ("bias", bias), ("running_mean", running_mean), ("running_var", running_var)];
    let shape = check(x, params)?;
    let dtype = statistics_dtype(x, &[weight, bias, running_mean, running_var])?;
    if !training && (running_mean.is_none() || running_var.is_none()) {
        return Err(Error::invalid_argument(
            "running_mean and running_var must be defined in evaluation mode",
        ));
    }
    let out = Dest::New.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[])?;
    let saved = if training { [shape.channels as i64] } else { [0] };
    if out.is_meta() {
        let (mean, invstd) = (empty(saved, dtype, x)?, empty(saved, dtype, x)?);
        return Ok((in_format_of(out.finish()?.new_tensor(), x)?, mean, invstd));
    }
    let dense = x.to_contiguous()?;
    let in_steps = dtype.is_reduced_floating_point() && !are_contiguous(x, params.map(|(_, param)| param));
    let (mean, invstd): (Vec<f64>, Vec<f64>) = match (training, running_mean, running_var) {
        (false, Some(mean), Some(var)) => {
            let sums = norm::numbers_of(var)?.into_iter().map(|var| var + eps).collect();
            let invstd = if in_steps {
                let roots = rounded(sums, dtype)?.into_iter().map(f64::sqrt).collect();
                rounded(rounded(roots, dtype)?.into_iter().map(f64::recip).collect(), dtype)?
            } else {
                sums.into_iter().map(|sum: f64| 1.0 / sum.sqrt()).collect()
            };
            (norm::numbers_of(mean)?, invstd)
        }
        _ => {
            let moments = norm::channel_moments(&dense, shape)?;
            update(running_mean, running_var, &moments, shape.count() as f64, momentum)?;
            let invstd = |squares: f64| 1.0 / (squares / shape.count() as f64 + eps).sqrt();
            let (mean, invstd): (Vec<f64>, Vec<f64>) =
                moments.into_iter().map(|(mean, squares)| (mean, invstd(squares))).unzip();
            (rounded(mean, dtype)?, rounded(invstd, dtype)?)
        }
    };
    let (weight, bias) = (norm::numbers(weight)?, norm::numbers(bias)?);
    let scale = |channel: usize| weight.as_ref().map_or(1.0, |weight| weight[channel]);
    let shift = |channel: usize| bias.as_ref().map_or(0.0, |bias| bias[channel]);
    if in_steps {
        norm::normalise_channels_in_steps(&dense, &out, shape, |channel| {
            [mean[channel], invstd[channel], scale(channel), shift(channel)]
        })?;
    } else {
        norm::normalise_channels(&dense, &out, shape, |_, channel| {
            [mean[channel], invstd[channel] * scale(channel), shift(channel)]
        })?;
    }
    let out = in_format_of(out.finish()?.new_tensor(), x)?;
    let kept = saved[0] as usize;
    Ok((out, tensor_of(&mean[..kept], &saved, dtype)?, tensor_of(&invstd[..kept], &saved, dtype)?))
}

/// Whether all lie densely, as PyTorch's fast loop of half precision wants them: it rounds the result alone, and
/// the loop for all others each step.
fn are_contiguous(x: &Tensor, params: [Maybe<'_>; 4]) -> bool {
    let formats = [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d];
    formats.into_iter().any(|format| x.is_contiguous_in(format))
        && params.into_iter().flatten().all(Tensor::is_contiguous)
}

/// Numbers as the dtype holds them: elements are normalised by what is saved.
fn rounded(values: Vec<f64>, dtype: ScalarType) -> Result<Vec<f64>> {
    if !dtype.is_reduced_floating_point() {
        return Ok(values);
    }
    norm::numbers_of(&tensor_of(&values, &[values.len() as i64], dtype)?)
}

/// Moves running statistics towards those of the batch; their variance is the unbiased one.
fn update(
    running_mean: Maybe<'_>,
    running_var: Maybe<'_>,
    moments: &[(f64, f64)],
    count: f64,
    momentum: f64,
) -> Result<()> {
    let unbiased = |squares: f64| squares / (count - 1.0);
    let means: Vec<f64> = moments.iter().map(|moments| moments.0).collect();
    let vars: Vec<f64> = moments.iter().map(|moments| unbiased(moments.1)).collect();
    for (running, new) in [(running_mean, means), (running_var, vars)] {
        let Some(running) = running else { continue };
        let old = norm::numbers_of(running)?;
        let moved: Vec<f64> =
            old.iter().zip(new).map(|(old, new)| momentum * new + (1.0 - momentum) * old).collect();
        kernels::copy(running, &tensor_of(&moved, &[moved.len() as i64], running.dtype())?)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
#[allow(clippy::type_complexity, reason = "five results")]
fn functional(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    let (mean, var) = (copied(running_mean)?, copied(running_var)?);
    let (out, save_mean, save_invstd) =
        native(x, weight, bias, Some(&mean), Some(&var), training, momentum, eps)?;
    Ok((out, save_mean, save_invstd, mean, var))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn backward(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    mask: &[bool],
) -> Result<Gradients> {
    let (mean, var) = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let shape = check(x, [("weight", weight), ("bias", None), ("mean", mean), ("variance", var)])?;
    check_same_sizes(grad, x)?;
    let wants = wanted(mask)?;
    let (Some(mean), Some(var)) = (mean, var) else {
        return Err(Error::invalid_argument("the statistics that the output was made with are expected"));
    };
    let dtype = weight.map_or(x.dtype(), Tensor::dtype);
    let channels = shape.channels as i64;
    let input = wants[0].then(|| empty(x.sizes(), x.dtype(), x)).transpose()?;
    if x.is_meta() {
        let param = |wants: bool| wants.then(|| empty([channels], dtype, x)).transpose();
        return Ok((input, param(wants[1])?, param(wants[2])?));
    }
    let (grad, dense) = (grad.to_dtype(x.dtype())?.to_contiguous()?, x.to_contiguous()?);
    let mean = norm::numbers_of(mean)?;
    let invstd = norm::numbers_of(var)?;
    let invstd: Vec<f64> =
        if train { invstd } else { invstd.into_iter().map(|var| 1.0 / (var + eps).sqrt()).collect() };
    let rows = norm::channel_gradients(&grad, &dense, shape, |_, channel| mean[channel])?;
    let mut sums = vec![(0.0, 0.0); shape.channels];
    for (row, sum) in rows.into_iter().enumerate() {
        let total = &mut sums[row % shape.channels];
        *total = (total.0 + sum.0, total.1 + sum.1);
    }
    if let Some(input) = &input {
        let weight = norm::numbers(weight)?;
        let n = shape.count() as f64;
        norm::group_gradient(&grad, &dense, input, shape, |_, channel| {
            let scale = invstd[channel] * weight.as_ref().map_or(1.0, |weight| weight[channel]);
            if !train {
                return [scale, 0.0, 0.0];
            }
            let slope = -scale * sums[channel].1 * invstd[channel] * invstd[channel] / n;
            [scale, slope, -scale * sums[channel].0 / n - slope * mean[channel]]
        })?;
    }
    let param = |wants: bool, of: &dyn Fn(usize) -> f64| {
        let values: Vec<f64> = (0..shape.channels).map(of).collect();
        wants.then(|| tensor_of(&values, &[channels], dtype)).transpose()
    };
    let by_weight = param(wants[1], &|channel| sums[channel].1 * invstd[channel])?;
    let by_bias = param(wants[2], &|channel| sums[channel].0)?;
    Ok((input.map(|input| in_format_of(input, x)).transpose()?, by_weight, by_bias))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn batch_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn: bool,
) -> Result<Tensor> {
    if x.numel() == 0 {
        let first = |param: Maybe<'_>| param.map(|param| param.select(0, 0)).transpose();
        let out = handles::CLONE.call(x, None)?;
        let out = first(weight)?.map_or(Ok(out.clone()), |weight: Tensor| out.mul(&weight))?;
        return first(bias)?.map_or(Ok(out.clone()), |bias: Tensor| out.add(&bias));
    }
    let norm = &handles::NATIVE_BATCH_NORM;
    norm.call(x, weight, bias, running_mean, running_var, training, momentum, eps).map(|made| made.0)
}

/// A batch norm of a batch of one sample that has the channels of all.
#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn instance_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    cudnn: bool,
) -> Result<Tensor> {
    if !use_input_stats && (running_mean.is_none() || running_var.is_none()) {
        return Err(Error::invalid_argument(
            "Expected running_mean and running_var to be defined when use_input_stats is false",
        ));
    }
    let sizes = x.sizes();
    let [samples, channels, ref places @ ..] = sizes[..] else {
        return Err(Error::shape(format!(
            "expected an input of at least 2 dimensions, and found sizes {sizes:?}"
        )));
    };
    let repeated = |param: Maybe<'_>| param.map(|param| param.repeat(&[samples])).transpose();
    let (weight, bias) = (repeated(weight)?, repeated(bias)?);
    let running = (repeated(running_mean)?, repeated(running_var)?);
    let shape: Vec<i64> = [1, samples * channels].iter().chain(places).copied().collect();
    let made = batch_norm(
        &x.reshape(&shape)?,
        weight.as_ref(),
        bias.as_ref(),
        running.0.as_ref(),
        running.1.as_ref(),
        use_input_stats,
        momentum,
        eps,
        cudnn,
    )?;
    for (given, repeated) in [(running_mean, running.0), (running_var, running.1)] {
        if let (Some(given), Some(repeated)) = (given, repeated) {
            let mean =
                handles::MEAN_DIM.call(&repeated.reshape(&[samples, channels])?, Some(&[0]), false, None)?;
            given.copy_(&mean)?;
        }
    }
    made.reshape(&sizes)
}
