//! Pooling over windows of a fixed size: which windows there are, and what comes of them.

use c10_core::{MemoryFormat, ScalarType};

use super::images::{
    DIMS, check_image, check_same_dtype, check_sizes, image, images, moved, numbers, resized, spatial,
};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::cpu;
use crate::kernels::cpu::window::{Window, Windows};
use crate::tensor::{Dims, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, avg_pool::<2>, (x: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], ceil: bool,
        count_pad: bool, divisor: Option<i64>), functional "avg_pool2d", out "avg_pool2d.out");
    register_triple!(lib, avg_pool::<3>, (x: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], ceil: bool,
        count_pad: bool, divisor: Option<i64>), functional "avg_pool3d", out "avg_pool3d.out");
    lib.cpu_meta("avg_pool2d_backward", avg_pool_backward::<2>)?;
    lib.cpu_meta("avg_pool3d_backward", avg_pool_backward::<3>)?;
    lib.cpu_meta("max_pool2d_with_indices", max_pool::<2>)?;
    lib.cpu_meta("max_pool3d_with_indices", max_pool::<3>)?;
    lib.cpu_meta("max_pool2d_with_indices_backward", max_pool_backward::<2>)?;
    lib.cpu_meta("max_pool3d_with_indices_backward", max_pool_backward::<3>)?;
    lib.cpu_meta("max_unpool2d", max_unpool2d)?;
    lib.cpu_meta("max_unpool3d", max_unpool3d)?;
    lib.composite("avg_pool1d", avg_pool1d)?;
    lib.composite("max_pool1d_with_indices", max_pool1d_with_indices)?;
    lib.composite("max_pool1d", |x: &Tensor, k: &[i64], s: &[i64], p: &[i64], d: &[i64], c: bool| {
        max_pool1d_with_indices(x, k, s, p, d, c).map(|(values, _)| values)
    })?;
    lib.composite("max_pool2d", |x: &Tensor, k: &[i64], s: &[i64], p: &[i64], d: &[i64], c: bool| {
        super::handles::MAX_POOL2D_WITH_INDICES.call(x, k, s, p, d, c).map(|(values, _)| values)
    })?;
    lib.composite("max_pool3d", |x: &Tensor, k: &[i64], s: &[i64], p: &[i64], d: &[i64], c: bool| {
        super::handles::MAX_POOL3D_WITH_INDICES.call(x, k, s, p, d, c).map(|(values, _)| values)
    })
}

/// How windows of one size lie.
struct Pool {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil_mode: bool,
}

impl Pool {
    fn new(
        rank: usize,
        kernel: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Self> {
        let kernel = numbers("kernel_size", kernel, rank)?;
        let stride = if stride.is_empty() { kernel.clone() } else { numbers("stride", stride, rank)? };
        let padding = numbers("padding", padding, rank)?;
        let dilation = numbers("dilation", dilation, rank)?;
        for (name, values) in [("kernel size", &kernel), ("stride", &stride), ("dilation", &dilation)] {
            if values.iter().any(|&value| value < 1) {
                return Err(Error::invalid_argument(format!(
                    "{name} should be greater than zero, got {values:?}"
                )));
            }
        }
        for dim in 0..rank {
            let (pad, kernel) = (padding[dim], kernel[dim]);
            if pad < 0 {
                return Err(Error::invalid_argument(format!("pad must be non-negative, but got pad: {pad}")));
            }
            if pad > kernel / 2 {
                return Err(Error::invalid_argument(format!(
                    "pad should be at most half of kernel size, but got pad={pad} and kernel_size={kernel}"
                )));
            }
        }
        Ok(Self { kernel, stride, padding, dilation, ceil_mode })
    }

    /// The number of windows along a dimension.
    fn output_len(&self, dim: usize, input: i64) -> Result<i64> {
        let (stride, pad) = (self.stride[dim], self.padding[dim]);
        let overflow = || Error::new(ErrorKind::Overflow, "effective kernel size overflows");
        let reach = (self.kernel[dim] - 1).checked_mul(self.dilation[dim]).ok_or_else(overflow)?;
        let room = input
            .checked_add(pad.checked_mul(2).ok_or_else(overflow)?)
            .and_then(|padded| padded.checked_sub(reach)?.checked_sub(1))
            .ok_or_else(overflow)?;
        let extra = if self.ceil_mode { stride - 1 } else { 0 };
        let mut len = room.checked_add(extra).ok_or_else(overflow)?.div_euclid(stride) + 1;
        // The last window begins in the input or in the padding before it.
        if self.ceil_mode && (len - 1).checked_mul(stride).is_none_or(|first| first >= input + pad) {
            len -= 1;
        }
        if len < 1 {
            return Err(Error::shape(format!("an input of {input} elements is too small: no window fits")));
        }
        Ok(len)
    }

    fn output(&self, sizes: &[i64]) -> Result<Dims> {
        let lead = sizes.len() - self.kernel.len();
        let last = (0..self.kernel.len())
            .map(|dim| self.output_len(dim, sizes[lead + dim]))
            .collect::<Result<Vec<_>>>()?;
        resized(sizes, &last)
    }

    /// The windows over an image of `input` elements each way.
    fn windows(&self, input: [usize; DIMS], output: [usize; DIMS], count_pad: bool) -> Windows {
        let [kernel, stride] = [&self.kernel, &self.stride].map(|values| moved(values, 1));
        let (padding, dilation) = (moved(&self.padding, 0), moved(&self.dilation, 1));
        let axes = std::array::from_fn(|dim| {
            let (len, step, pad) = (input[dim], dilation[dim], padding[dim]);
            (0..output[dim])
                .map(|index| {
                    let begin = index * stride[dim];
                    let end = begin + (kernel[dim] - 1) * step + 1;
                    let first = if begin >= pad { begin - pad } else { (step - (pad - begin) % step) % step };
                    let inside = end.saturating_sub(pad).min(len);
                    let padded = end.min(len + 2 * pad) - begin;
                    let count = if count_pad { padded } else { inside.saturating_sub(first) };
                    Window { first, end: inside, step, count }
                })
                .collect()
        });
        Windows { axes, input, divisor: None }
    }
}

/// Channels last where the argument is, but not in three dimensions, as PyTorch has it.
fn mean_format(x: &Tensor) -> MemoryFormat {
    match x.suggest_memory_format() {
        MemoryFormat::ChannelsLast3d => MemoryFormat::Contiguous,
        format => format,
    }
}

#[expect(clippy::too_many_arguments, reason = "the operator's own, and the destination")]
fn avg_pool<const RANK: usize>(
    dest: Dest<'_>,
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_pad: bool,
    divisor: Option<i64>,
) -> Result<Made> {
    let pool = Pool::new(RANK, kernel, stride, padding, &[1], ceil_mode)?;
    check_image(x, RANK)?;
    check_divisor(divisor)?;
    let (input, output) = (x.sizes(), pool.output(&x.sizes())?);
    cpu::pool::check_mean(x.dtype())?;
    let mut windows = pool.windows(spatial(&input, RANK), spatial(&output, RANK), count_pad);
    windows.divisor = divisor;
    image(dest, output, x.dtype(), mean_format(x), [x], |[x], out| cpu::pool::mean(&windows, &x, out))
}

fn check_divisor(divisor: Option<i64>) -> Result<()> {
    if divisor == Some(0) { Err(Error::invalid_argument("divisor must be not zero")) } else { Ok(()) }
}

#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn avg_pool_backward<const RANK: usize>(
    grad: &Tensor,
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_pad: bool,
    divisor: Option<i64>,
) -> Result<Tensor> {
    let pool = Pool::new(RANK, kernel, stride, padding, &[1], ceil_mode)?;
    check_image(x, RANK)?;
    check_divisor(divisor)?;
    check_same_dtype(grad, x)?;
    let (input, output) = (x.sizes(), pool.output(&x.sizes())?);
    check_sizes("grad_output", grad, &output)?;
    cpu::pool::check_mean(x.dtype())?;
    let mut windows = pool.windows(spatial(&input, RANK), spatial(&output, RANK), count_pad);
    windows.divisor = divisor;
    let made = image(Dest::New, input, x.dtype(), mean_format(x), [grad], |[grad], out| {
        cpu::pool::mean_backward(&windows, &grad, out)
    })?;
    Ok(made.new_tensor())
}

fn max_pool<const RANK: usize>(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let pool = Pool::new(RANK, kernel, stride, padding, dilation, ceil_mode)?;
    check_image(x, RANK)?;
    let (input, output) = (x.sizes(), pool.output(&x.sizes())?);
    let windows = pool.windows(spatial(&input, RANK), spatial(&output, RANK), false);
    max_of(x, output, x.suggest_memory_format(), &windows)
}

/// The largest elements of windows, and their places.
pub(super) fn max_of(
    x: &Tensor,
    output: Dims,
    format: MemoryFormat,
    windows: &Windows,
) -> Result<(Tensor, Tensor)> {
    cpu::pool::check_max(x.dtype())?;
    let dtypes = [x.dtype(), ScalarType::Int64];
    let [values, places] = images([Dest::New; 2], output, dtypes, format, [x], |[x], [values, places]| {
        cpu::pool::max(windows, &x, values, places)
    })?;
    Ok((values.new_tensor(), places.new_tensor()))
}

#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn max_pool_backward<const RANK: usize>(
    grad: &Tensor,
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    places: &Tensor,
) -> Result<Tensor> {
    let pool = Pool::new(RANK, kernel, stride, padding, dilation, ceil_mode)?;
    check_image(x, RANK)?;
    let output = pool.output(&x.sizes())?;
    check_sizes("grad_output", grad, &output)?;
    max_backward(grad, x, places, RANK, x.suggest_memory_format())
}

/// The gradient of what maxima were taken of.
pub(super) fn max_backward(
    grad: &Tensor,
    x: &Tensor,
    places: &Tensor,
    rank: usize,
    format: MemoryFormat,
) -> Result<Tensor> {
    check_same_dtype(grad, x)?;
    check_places(places, &grad.sizes())?;
    cpu::pool::check_max(x.dtype())?;
    let plane = |sizes: &[i64]| sizes[sizes.len() - rank..].iter().product::<i64>() as usize;
    let (inputs, outputs) = (plane(&x.sizes()), plane(&grad.sizes()));
    let made = image(Dest::New, x.sizes(), x.dtype(), format, [grad, places], |[grad, places], out| {
        cpu::pool::max_backward(inputs, outputs, &grad, &places, out)
    })?;
    Ok(made.new_tensor())
}

fn check_places(places: &Tensor, sizes: &[i64]) -> Result<()> {
    if places.dtype() != ScalarType::Int64 {
        return Err(Error::dtype(format!(
            "elements in indices should be type int64 but got: {}",
            places.dtype().name()
        )));
    }
    check_sizes("indices", places, sizes)
}

fn max_unpool2d(x: &Tensor, places: &Tensor, output: &[i64]) -> Result<Tensor> {
    let output = unpooled(x, places, output, 2)?;
    unpool(x, places, output, 2, x.suggest_memory_format())
}

fn max_unpool3d(
    x: &Tensor,
    places: &Tensor,
    output: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    let stride = numbers("stride", stride, 3)?;
    numbers("padding", padding, 3)?;
    if stride.iter().any(|&stride| stride < 1) {
        return Err(Error::invalid_argument(format!(
            "strides should be greater than zero, but got {stride:?}"
        )));
    }
    let output = unpooled(x, places, output, 3)?;
    unpool(x, places, output, 3, MemoryFormat::Contiguous)
}

fn unpooled(x: &Tensor, places: &Tensor, output: &[i64], rank: usize) -> Result<Dims> {
    let output = numbers("output_size", output, rank)?;
    check_image(x, rank)?;
    check_places(places, &x.sizes())?;
    if output.iter().any(|&len| len < 0) {
        return Err(Error::shape(format!("output_size must not be negative, got {output:?}")));
    }
    resized(&x.sizes(), &output)
}

fn unpool(x: &Tensor, places: &Tensor, output: Dims, rank: usize, format: MemoryFormat) -> Result<Tensor> {
    cpu::pool::check_max(x.dtype())?;
    let planes = |sizes: &[i64]| sizes[sizes.len() - rank..].iter().product::<i64>() as usize;
    let (inputs, outputs) = (planes(&x.sizes()), planes(&output));
    let made = image(Dest::New, output, x.dtype(), format, [x, places], |[x, places], out| {
        cpu::pool::unpool(inputs, outputs, &x, &places, out)
    })?;
    Ok(made.new_tensor())
}

/// A one-dimensional image as one of height 1.
pub(super) fn with_height(x: &Tensor) -> Result<Tensor> {
    if x.rank() < 2 {
        return Err(Error::shape(format!(
            "Expected 2 to 3 dimensions, but got {}-dimensional tensor",
            x.rank()
        )));
    }
    x.unsqueeze(-2)
}

fn avg_pool1d(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_pad: bool,
) -> Result<Tensor> {
    let (kernel, stride, padding) = flat(kernel, stride, padding)?;
    let pooled = super::handles::AVG_POOL2D.call(
        &with_height(x)?,
        &kernel,
        &stride,
        &padding,
        ceil_mode,
        count_pad,
        None,
    )?;
    pooled.squeeze_dim(-2)
}

fn max_pool1d_with_indices(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let (kernel, stride, padding) = flat(kernel, stride, padding)?;
    let dilation = [1, numbers("dilation", dilation, 1)?[0]];
    let (values, places) = super::handles::MAX_POOL2D_WITH_INDICES.call(
        &with_height(x)?,
        &kernel,
        &stride,
        &padding,
        &dilation,
        ceil_mode,
    )?;
    Ok((values.squeeze_dim(-2)?, places.squeeze_dim(-2)?))
}

/// The same along the width, of height 1.
fn flat(kernel: &[i64], stride: &[i64], padding: &[i64]) -> Result<([i64; 2], [i64; 2], [i64; 2])> {
    let kernel = numbers("kernel_size", kernel, 1)?[0];
    let stride = if stride.is_empty() { kernel } else { numbers("stride", stride, 1)?[0] };
    Ok(([1, kernel], [1, stride], [0, numbers("padding", padding, 1)?[0]]))
}
