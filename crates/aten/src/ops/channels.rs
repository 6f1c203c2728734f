//! Channels that become places, and back.

use c10_core::MemoryFormat;

use super::Dest;
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels;
use crate::tensor::{Dims, New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("pixel_shuffle", pixel_shuffle)?;
    lib.cpu_meta("pixel_unshuffle", pixel_unshuffle)?;
    lib.cpu_meta("channel_shuffle", channel_shuffle)
}

/// The sizes before and after channels, height and width.
fn image_sizes(x: &Tensor) -> Result<(Dims, [i64; 3])> {
    let sizes = x.sizes();
    let [lead @ .., channels, height, width] = &sizes[..] else {
        return Err(Error::shape(format!(
            "expected at least 3 dimensions, got input with {} dimension(s)",
            sizes.len()
        )));
    };
    Ok((Dims::from(lead), [*channels, *height, *width]))
}

fn check_factor(name: &str, factor: i64) -> Result<i64> {
    if factor < 1 {
        return Err(Error::invalid_argument(format!("{name} must be positive, but got {factor}")));
    }
    factor
        .checked_mul(factor)
        .ok_or_else(|| Error::new(ErrorKind::Overflow, format!("{name} squared overflows")))
}

/// A copy of `x`, whose last dimensions are split into `split`, in the order of `order`, joined to `sizes`.
fn rearranged(x: &Tensor, lead: &Dims, split: &[i64], order: &[usize], last: &[i64]) -> Result<Tensor> {
    let x = x.to_contiguous()?;
    let sizes: Dims = lead.iter().chain(last).copied().collect();
    let format = if sizes.len() == 4 { x.suggest_memory_format() } else { MemoryFormat::Contiguous };
    let strides = crate::shape::strides_of_format(&sizes, format)?;
    let out = Dest::New.output(New::strided(sizes, strides, x.dtype(), x.device()), &[&x])?;
    if out.is_meta() || x.numel() == 0 {
        return Ok(out.finish()?.new_tensor());
    }
    let split: Dims = lead.iter().chain(split).copied().collect();
    let steps = crate::shape::contiguous_strides(&split)?;
    let place = |dim: usize| if dim < lead.len() { dim } else { lead.len() + order[dim - lead.len()] };
    let moved = |numbers: &Dims| (0..numbers.len()).map(|dim| numbers[place(dim)]).collect::<Dims>();
    let from = x.view_of(moved(&split), moved(&steps), x.storage_offset())?;
    let row_major = New::contiguous(moved(&split), x.dtype(), x.device()).make()?;
    kernels::copy_fresh(&row_major, &from)?;
    let (sizes, strides) = (out.tensor().sizes(), crate::shape::contiguous_strides(&out.tensor().sizes())?);
    out.copy_from(&row_major.view_of(sizes, strides, 0)?)?;
    Ok(out.finish()?.new_tensor())
}

fn pixel_shuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    let (lead, [channels, height, width]) = image_sizes(x)?;
    let square = check_factor("upscale_factor", factor)?;
    if channels % square != 0 {
        return Err(Error::shape(format!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, \
             but input.size(-3)={channels} is not divisible by {square}"
        )));
    }
    let channels = channels / square;
    let split = [channels, factor, factor, height, width];
    let sizes = [channels, height.saturating_mul(factor), width.saturating_mul(factor)];
    rearranged(x, &lead, &split, &[0, 3, 1, 4, 2], &sizes)
}

fn pixel_unshuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    let (lead, [channels, height, width]) = image_sizes(x)?;
    let square = check_factor("downscale_factor", factor)?;
    if height % factor != 0 || width % factor != 0 {
        return Err(Error::shape(format!(
            "pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} and {width} \
             are not both divisible by {factor}"
        )));
    }
    let (height, width) = (height / factor, width / factor);
    let split = [channels, height, factor, width, factor];
    rearranged(x, &lead, &split, &[0, 2, 4, 1, 3], &[channels.saturating_mul(square), height, width])
}

fn channel_shuffle(x: &Tensor, groups: i64) -> Result<Tensor> {
    let sizes = x.sizes();
    if sizes.len() < 3 {
        return Err(Error::shape(format!("channel_shuffle expects input with > 2 dims, but got {sizes:?}")));
    }
    if groups < 1 || sizes[1] % groups != 0 {
        return Err(Error::invalid_argument(format!(
            "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
            sizes[1]
        )));
    }
    let lead = Dims::from(&sizes[..1]);
    let split: Dims = [groups, sizes[1] / groups].iter().chain(&sizes[2..]).copied().collect();
    let order: Vec<usize> = [1, 0].into_iter().chain(2..split.len()).collect();
    rearranged(x, &lead, &split, &order, &sizes[1..])
}
