//! Normalisation of layers and groups, and what all normalisation shares.

use c10_core::{MemoryFormat, ScalarType};

use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels;
use crate::kernels::cpu::norm::{self, Channels};
use crate::shape;
use crate::tensor::{Dims, New, Tensor};

type Maybe<'a> = Option<&'a Tensor>;
type Gradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("native_layer_norm", native_layer_norm)?;
    lib.cpu_meta("native_layer_norm_backward", native_layer_norm_backward)?;
    lib.composite(
        "layer_norm",
        |x: &Tensor,
         shape: &[i64],
         weight: Option<&Tensor>,
         bias: Option<&Tensor>,
         eps: f64,
         _cudnn: bool| {
            handles::NATIVE_LAYER_NORM.call(x, shape, weight, bias, eps).map(|made| made.0)
        },
    )?;
    lib.composite("rms_norm", rms_norm)?;
    lib.cpu_meta("_fused_rms_norm", fused_rms_norm)?;
    lib.cpu_meta("native_group_norm", native_group_norm)?;
    lib.cpu_meta("native_group_norm_backward", native_group_norm_backward)?;
    lib.composite("group_norm", group_norm)
}

/// The dtype of means and deviations: `float32` beside half-precision inputs whose weights are, else the input's.
pub(super) fn statistics_dtype(x: &Tensor, params: &[Maybe<'_>]) -> Result<ScalarType> {
    let mut dtype = x.dtype();
    if !dtype.is_floating_point() {
        return Err(Error::not_implemented(format!(
            "normalisation is not implemented for '{}'",
            dtype.c10_name()
        )));
    }
    for param in params.iter().flatten() {
        let fits = param.dtype() == x.dtype()
            || (x.dtype().is_reduced_floating_point() && param.dtype() == ScalarType::Float32);
        if !fits {
            return Err(Error::dtype(format!(
                "expected weights of {} or, beside half precision, of float32, and found {}",
                x.dtype().name(),
                param.dtype().name()
            )));
        }
        dtype = param.dtype();
    }
    Ok(dtype)
}

/// Numbers as a tensor.
pub(super) fn tensor_of(values: &[f64], sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    Tensor::from_slice(values, sizes)?.to_dtype(dtype)
}

/// A tensor with unspecified values.
pub(super) fn empty(sizes: impl Into<Dims>, dtype: ScalarType, like: &Tensor) -> Result<Tensor> {
    New::contiguous(sizes, dtype, like.device()).make()
}

/// A result in the memory format that `like` suggests.
pub(super) fn in_format_of(made: Tensor, like: &Tensor) -> Result<Tensor> {
    let format = like.suggest_memory_format();
    if format == MemoryFormat::Contiguous || made.numel() == 0 {
        return Ok(made);
    }
    let strides = shape::strides_of_format(&made.sizes(), format)?;
    let out = New::strided(made.sizes(), strides, made.dtype(), made.device()).make()?;
    kernels::copy_fresh(&out, &made)?;
    Ok(out)
}

/// Where the normalised dimensions begin, which must be the last ones and those of the weights.
fn check_layer(x: &Tensor, shape: &[i64], weight: Maybe<'_>, bias: Maybe<'_>) -> Result<usize> {
    if shape.is_empty() {
        return Err(Error::shape(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but \
             got normalized_shape = []",
        ));
    }
    for (name, param) in [("weight", weight), ("bias", bias)] {
        if let Some(param) = param
            && param.sizes() != shape
        {
            return Err(Error::shape(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and \
                 normalized_shape = {shape:?}",
                param.sizes()
            )));
        }
    }
    let sizes = x.sizes();
    match sizes.len().checked_sub(shape.len()) {
        Some(axis) if sizes[axis..] == *shape => Ok(axis),
        _ => Err(Error::shape(format!(
            "Given normalized_shape={shape:?}, expected input with shape [*{}], but got input of size{sizes:?}",
            shape.iter().map(|size| format!(", {size}")).collect::<String>()
        ))),
    }
}

/// The shape of means: 1 for what is normalised.
fn statistics_shape(x: &Tensor, axis: usize) -> Dims {
    x.sizes().iter().enumerate().map(|(dim, &size)| if dim < axis { size } else { 1 }).collect()
}

fn native_layer_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let axis = check_layer(x, shape, weight, bias)?;
    let dtype = statistics_dtype(x, &[weight, bias])?;
    let statistics = statistics_shape(x, axis);
    let out = Dest::New.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[])?;
    let n: i64 = shape.iter().product();
    if out.is_meta() || n == 0 {
        let (mean, rstd) = (empty(statistics.clone(), dtype, x)?, empty(statistics, dtype, x)?);
        return Ok((out.finish()?.new_tensor(), mean, rstd));
    }
    let (weight, bias) = (norm::numbers(weight)?, norm::numbers(bias)?);
    let x = x.to_contiguous()?;
    let (mean, rstd) = norm::normalise_rows(&x, &out, n as usize, weight.as_deref(), bias.as_deref(), eps)?;
    let (mean, rstd) = (tensor_of(&mean, &statistics, dtype)?, tensor_of(&rstd, &statistics, dtype)?);
    Ok((out.finish()?.new_tensor(), mean, rstd))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn native_layer_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mask: &[bool],
) -> Result<Gradients> {
    let axis = check_layer(x, shape, weight, bias)?;
    let wants = wanted(mask)?;
    check_same_sizes(grad, x)?;
    let outer: i64 = x.sizes()[..axis].iter().product();
    if mean.numel() != outer || rstd.numel() != outer {
        return Err(Error::shape(format!(
            "expected {outer} means and deviations, and found {}",
            mean.numel()
        )));
    }
    let n = shape.iter().product::<i64>() as usize;
    let param_dtype = weight.map_or(x.dtype(), Tensor::dtype);
    let input = wants[0].then(|| empty(x.sizes(), x.dtype(), x)).transpose()?;
    if x.is_meta() {
        let param = |wants: bool| wants.then(|| empty(shape, param_dtype, x)).transpose();
        return Ok((input, param(wants[1] && weight.is_some())?, param(wants[2])?));
    }
    let (grad, dense) = (grad.to_dtype(x.dtype())?.to_contiguous()?, x.to_contiguous()?);
    let statistics = (norm::numbers_of(mean)?, norm::numbers_of(rstd)?);
    let weights = norm::numbers(weight)?;
    let (by_weight, by_bias) = norm::layer_gradients(
        &grad,
        &dense,
        input.as_ref(),
        n,
        (&statistics.0, &statistics.1),
        weights.as_deref(),
    )?;
    let param = |wants: bool, sums: Vec<f64>| wants.then(|| tensor_of(&sums, shape, param_dtype)).transpose();
    Ok((input, param(wants[1], by_weight)?, param(wants[2], by_bias)?))
}

/// Which of three gradients are asked for.
pub(super) fn wanted(mask: &[bool]) -> Result<[bool; 3]> {
    mask.try_into().map_err(|_| Error::invalid_argument("output_mask has three elements"))
}

pub(super) fn check_same_sizes(grad: &Tensor, x: &Tensor) -> Result<()> {
    if grad.sizes() == x.sizes() {
        return Ok(());
    }
    Err(Error::shape(format!("a gradient of sizes {:?} of an input of sizes {:?}", grad.sizes(), x.sizes())))
}

fn rms_norm(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, eps: Option<f64>) -> Result<Tensor> {
    handles::_FUSED_RMS_NORM.call(x, shape, weight, eps).map(|made| made.0)
}

fn fused_rms_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    let axis = check_layer(x, shape, weight, None)?;
    let wide = matches!(x.dtype(), ScalarType::Float64 | ScalarType::Complex128);
    let eps = eps.unwrap_or(if wide { f64::EPSILON } else { f32::EPSILON.into() });
    if x.dtype().is_complex() {
        return complex_rms_norm(x, axis, weight, eps);
    }
    statistics_dtype(x, &[weight])?;
    let dtype = if x.dtype().is_reduced_floating_point() { ScalarType::Float32 } else { x.dtype() };
    let statistics = statistics_shape(x, axis);
    let out = Dest::New.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[])?;
    let n: i64 = shape.iter().product();
    if out.is_meta() || n == 0 {
        return Ok((out.finish()?.new_tensor(), empty(statistics, dtype, x)?));
    }
    let weight = norm::numbers(weight)?;
    let rstd = norm::rms_rows(&x.to_contiguous()?, &out, n as usize, weight.as_deref(), eps)?;
    Ok((out.finish()?.new_tensor(), tensor_of(&rstd, &statistics, dtype)?))
}

/// The mean of squares, not of sizes: it is complex.
fn complex_rms_norm(x: &Tensor, axis: usize, weight: Maybe<'_>, eps: f64) -> Result<(Tensor, Tensor)> {
    let dims: Vec<i64> = (axis as i64..x.rank() as i64).collect();
    let mean = handles::MEAN_DIM.call(&x.mul(x)?, Some(&dims), true, None)?;
    let rstd = mean.add_scalar(eps)?.rsqrt()?;
    let made = x.mul(&rstd)?;
    Ok((weight.map_or(Ok(made.clone()), |weight| made.mul(weight))?, rstd))
}

fn group_norm(
    x: &Tensor,
    groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn: bool,
) -> Result<Tensor> {
    let sizes = x.sizes();
    let [n, channels, places @ ..] = &sizes[..] else {
        return Err(Error::shape(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            x.rank()
        )));
    };
    check_groups(*channels, groups)?;
    let places = places.iter().product();
    handles::NATIVE_GROUP_NORM.call(x, weight, bias, *n, *channels, places, groups, eps).map(|made| made.0)
}

fn check_groups(channels: i64, groups: i64) -> Result<()> {
    if groups <= 0 {
        return Err(Error::invalid_argument(format!(
            "Expected num groups to be greater than 0, got {groups}"
        )));
    }
    if channels % groups != 0 {
        return Err(Error::shape(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input with {channels} \
             channels and num_groups={groups}"
        )));
    }
    Ok(())
}

fn check_channel_params(channels: i64, params: [(&str, Maybe<'_>); 2]) -> Result<()> {
    for (name, param) in params {
        if let Some(param) = param
            && param.sizes() != [channels]
        {
            return Err(Error::shape(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} \
                 of shape {:?} and {channels} channels",
                param.sizes()
            )));
        }
    }
    Ok(())
}

/// The shape that the arguments of a group norm say, if it is that of the input.
fn group_shape(x: &Tensor, n: i64, channels: i64, places: i64, groups: i64) -> Result<(Channels, usize)> {
    check_groups(channels, groups)?;
    if places < 1 {
        return Err(Error::shape(format!("Expected HxW to be greater than 0, got {places}")));
    }
    let numel = n.checked_mul(channels).and_then(|count| count.checked_mul(places));
    if n < 0 || channels < 0 || places < 0 || numel != Some(x.numel()) {
        return Err(Error::shape(format!(
            "an input of {} elements is not {n} samples of {channels} channels of {places} places",
            x.numel()
        )));
    }
    let shape = Channels { samples: n as usize, channels: channels as usize, places: places as usize };
    Ok((shape, groups as usize))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn native_group_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    channels: i64,
    places: i64,
    groups: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (shape, groups) = group_shape(x, n, channels, places, groups)?;
    check_channel_params(channels, [("weight", weight), ("bias", bias)])?;
    let dtype = statistics_dtype(x, &[weight, bias])?;
    let out = Dest::New.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[])?;
    let statistics = [n, groups as i64];
    if out.is_meta() {
        let (mean, rstd) = (empty(statistics, dtype, x)?, empty(statistics, dtype, x)?);
        return Ok((out.finish()?.new_tensor(), mean, rstd));
    }
    let dense = x.to_contiguous()?;
    let per_group = shape.channels / groups;
    let size = per_group * shape.places;
    let moments = norm::group_moments(&dense, shape.samples * groups, size)?;
    let mean: Vec<f64> = moments.iter().map(|moments| moments.0).collect();
    let rstd: Vec<f64> = moments.iter().map(|moments| 1.0 / (moments.1 / size as f64 + eps).sqrt()).collect();
    let (weight, bias) = (norm::numbers(weight)?, norm::numbers(bias)?);
    norm::normalise_channels(&dense, &out, shape, |sample, channel| {
        let group = sample * groups + channel / per_group;
        let scale = weight.as_ref().map_or(1.0, |weight| weight[channel]);
        [mean[group], rstd[group] * scale, bias.as_ref().map_or(0.0, |bias| bias[channel])]
    })?;
    let out = in_format_of(out.finish()?.new_tensor(), x)?;
    Ok((out, tensor_of(&mean, &statistics, dtype)?, tensor_of(&rstd, &statistics, dtype)?))
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn native_group_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    channels: i64,
    places: i64,
    groups: i64,
    mask: &[bool],
) -> Result<Gradients> {
    let (shape, groups) = group_shape(x, n, channels, places, groups)?;
    check_channel_params(channels, [("weight", weight), ("bias", None)])?;
    check_same_sizes(grad, x)?;
    let wants = wanted(mask)?;
    if mean.numel() != n * groups as i64 || rstd.numel() != mean.numel() {
        return Err(Error::shape("as many means and deviations as groups in all samples are expected"));
    }
    let param_dtype = weight.map_or(x.dtype(), Tensor::dtype);
    let input = wants[0].then(|| empty(x.sizes(), x.dtype(), x)).transpose()?;
    if x.is_meta() {
        let param = |wants: bool| wants.then(|| empty([channels], param_dtype, x)).transpose();
        return Ok((input, param(wants[1])?, param(wants[2])?));
    }
    let (grad, dense) = (grad.to_dtype(x.dtype())?.to_contiguous()?, x.to_contiguous()?);
    let (mean, rstd) = (norm::numbers_of(mean)?, norm::numbers_of(rstd)?);
    let weight = norm::numbers(weight)?;
    let scale = |channel: usize| weight.as_ref().map_or(1.0, |weight| weight[channel]);
    let per_group = shape.channels / groups;
    let group_of = |sample: usize, channel: usize| sample * groups + channel / per_group;
    let sums =
        norm::channel_gradients(&grad, &dense, shape, |sample, channel| mean[group_of(sample, channel)])?;
    let row = |sample: usize, channel: usize| sums[sample * shape.channels + channel];
    if let Some(input) = &input {
        let size = (per_group * shape.places) as f64;
        let means: Vec<(f64, f64)> = (0..shape.samples * groups)
            .map(|group| {
                let channels = group % groups * per_group..(group % groups + 1) * per_group;
                let pairs = channels.map(|channel| (row(group / groups, channel), scale(channel)));
                let (sum, dot) =
                    pairs.fold((0.0, 0.0), |acc, (sums, w)| (acc.0 + sums.0 * w, acc.1 + sums.1 * w));
                (sum / size, dot * rstd[group] * rstd[group] / size)
            })
            .collect();
        norm::group_gradient(&grad, &dense, input, shape, |sample, channel| {
            let group = group_of(sample, channel);
            let (sum, dot) = means[group];
            let r = rstd[group];
            [r * scale(channel), -r * dot, r * (mean[group] * dot - sum)]
        })?;
    }
    let total = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..shape.channels)
            .map(|channel| (0..shape.samples).map(|sample| of(sample, channel)).sum())
            .collect()
    };
    let by_weight = total(&|sample, channel| row(sample, channel).1 * rstd[group_of(sample, channel)]);
    let by_bias = total(&|sample, channel| row(sample, channel).0);
    let param =
        |wants: bool, sums: Vec<f64>| wants.then(|| tensor_of(&sums, &[channels], param_dtype)).transpose();
    let input = input.map(|input| in_format_of(input, x)).transpose()?;
    Ok((input, param(wants[1], by_weight)?, param(wants[2], by_bias)?))
}
