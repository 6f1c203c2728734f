//! Pooling to a given number of windows, which share the elements out as evenly as they can.

use c10_core::MemoryFormat;

use super::Dest;
use super::images::{DIMS, check_image, check_same_dtype, image, moved, numbers, resized, spatial};
use super::pool::{max_backward, max_of, with_height};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu;
use crate::kernels::cpu::window::{Window, Windows};
use crate::reserve::reserved;
use crate::tensor::{Dims, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("_adaptive_avg_pool2d", |x: &Tensor, output: &[i64]| {
        avg_pool(x, output, 2, x.suggest_memory_format())
    })?;
    lib.cpu_meta("_adaptive_avg_pool3d", |x: &Tensor, output: &[i64]| {
        avg_pool(x, output, 3, MemoryFormat::Contiguous)
    })?;
    lib.cpu_meta("_adaptive_avg_pool2d_backward", |grad: &Tensor, x: &Tensor| {
        avg_pool_backward(grad, x, 2, x.suggest_memory_format())
    })?;
    lib.cpu_meta("_adaptive_avg_pool3d_backward", |grad: &Tensor, x: &Tensor| {
        avg_pool_backward(grad, x, 3, MemoryFormat::Contiguous)
    })?;
    lib.cpu_meta("adaptive_max_pool2d", |x: &Tensor, output: &[i64]| {
        max_pool(x, output, 2, x.suggest_memory_format())
    })?;
    lib.cpu_meta("adaptive_max_pool3d", |x: &Tensor, output: &[i64]| {
        max_pool(x, output, 3, MemoryFormat::Contiguous)
    })?;
    lib.cpu_meta("adaptive_max_pool2d_backward", |grad: &Tensor, x: &Tensor, places: &Tensor| {
        check_image(x, 2)?;
        max_backward(grad, x, places, 2, x.suggest_memory_format())
    })?;
    lib.cpu_meta("adaptive_max_pool3d_backward", |grad: &Tensor, x: &Tensor, places: &Tensor| {
        check_image(x, 3)?;
        max_backward(grad, x, places, 3, MemoryFormat::Contiguous)
    })?;
    lib.composite("adaptive_avg_pool1d", |x: &Tensor, output: &[i64]| -> Result<Tensor> {
        let output = [1, numbers("output_size", output, 1)?[0]];
        super::handles::ADAPTIVE_AVG_POOL2D.call(&with_height(x)?, &output)?.squeeze_dim(-2)
    })?;
    lib.composite("adaptive_max_pool1d", |x: &Tensor, output: &[i64]| -> Result<(Tensor, Tensor)> {
        let output = [1, numbers("output_size", output, 1)?[0]];
        let (values, places) = super::handles::ADAPTIVE_MAX_POOL2D.call(&with_height(x)?, &output)?;
        Ok((values.squeeze_dim(-2)?, places.squeeze_dim(-2)?))
    })?;
    lib.composite("adaptive_avg_pool2d", |x: &Tensor, output: &[i64]| {
        super::handles::_ADAPTIVE_AVG_POOL2D.call(x, output)
    })?;
    lib.composite("adaptive_avg_pool3d", |x: &Tensor, output: &[i64]| {
        super::handles::_ADAPTIVE_AVG_POOL3D.call(x, output)
    })
}

fn windows(input: [usize; DIMS], output: [usize; DIMS]) -> Result<Windows> {
    let axis = |dim: usize| -> Result<Vec<Window>> {
        let mut axis = reserved(output[dim])?;
        let (input, output) = (input[dim] as u128, output[dim] as u128);
        axis.extend((0..output).map(|index| {
            let first = (index * input / output) as usize;
            let end = ((index + 1) * input).div_ceil(output) as usize;
            Window { first, end, step: 1, count: end - first }
        }));
        Ok(axis)
    };
    Ok(Windows { axes: [axis(0)?, axis(1)?, axis(2)?], input, divisor: None })
}

/// The sizes of the result, and the windows.
fn plan(x: &Tensor, output: &[i64], rank: usize) -> Result<(Dims, Windows)> {
    if output.len() != rank || output.iter().any(|&len| len < 0) {
        return Err(Error::invalid_argument(format!(
            "output_size must be {rank} numbers greater than or equal to 0 but received {output:?}"
        )));
    }
    check_image(x, rank)?;
    let sizes = resized(&x.sizes(), output)?;
    Ok((sizes, windows(spatial(&x.sizes(), rank), moved(output, 1))?))
}

fn avg_pool(x: &Tensor, output: &[i64], rank: usize, format: MemoryFormat) -> Result<Tensor> {
    let (sizes, windows) = plan(x, output, rank)?;
    cpu::pool::check_mean(x.dtype())?;
    let made =
        image(Dest::New, sizes, x.dtype(), format, [x], |[x], out| cpu::pool::mean(&windows, &x, out))?;
    Ok(made.new_tensor())
}

fn avg_pool_backward(grad: &Tensor, x: &Tensor, rank: usize, format: MemoryFormat) -> Result<Tensor> {
    check_image(x, rank)?;
    check_same_dtype(grad, x)?;
    let output = grad.sizes();
    let lead = x.rank() - rank;
    if output.len() != x.rank() || output[..lead] != x.sizes()[..lead] {
        return Err(Error::shape(format!("grad_output of size {output:?} is of another batch or channels")));
    }
    cpu::pool::check_mean(x.dtype())?;
    let windows = windows(spatial(&x.sizes(), rank), spatial(&output, rank))?;
    let made = image(Dest::New, x.sizes(), x.dtype(), format, [grad], |[grad], out| {
        cpu::pool::mean_backward(&windows, &grad, out)
    })?;
    Ok(made.new_tensor())
}

fn max_pool(x: &Tensor, output: &[i64], rank: usize, format: MemoryFormat) -> Result<(Tensor, Tensor)> {
    let (sizes, windows) = plan(x, output, rank)?;
    max_of(x, sizes, format, &windows)
}
