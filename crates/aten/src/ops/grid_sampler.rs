//! Images sampled at the places of a grid.

use c10_core::{MemoryFormat, bf16, f16};

use super::images::{check_same_dtype, check_sizes, image, spatial};
use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::grid_sample::{Beyond, Interpolation, Sampling, sample, sample_backward};
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("grid_sampler_2d", |x: &Tensor, grid: &Tensor, mode: i64, beyond: i64, align: bool| {
        sampled(2, x, grid, mode, beyond, align)
    })?;
    lib.cpu_meta("grid_sampler_3d", |x: &Tensor, grid: &Tensor, mode: i64, beyond: i64, align: bool| {
        sampled(3, x, grid, mode, beyond, align)
    })?;
    macro_rules! backward {
        ($($name:literal, $rank:literal;)*) => {$(
            lib.cpu_meta(
                $name,
                |grad: &Tensor,
                 x: &Tensor,
                 grid: &Tensor,
                 mode: i64,
                 beyond: i64,
                 align: bool,
                 mask: &[bool]| {
                    gradients($rank, grad, x, grid, mode, beyond, align, mask)
                },
            )?;
        )*};
    }
    backward! {
        "grid_sampler_2d_backward", 2;
        "grid_sampler_3d_backward", 3;
    }
    lib.composite("grid_sampler", |x: &Tensor, grid: &Tensor, mode: i64, beyond: i64, align: bool| {
        match x.rank() {
            5 => handles::GRID_SAMPLER_3D.call(x, grid, mode, beyond, align),
            _ => handles::GRID_SAMPLER_2D.call(x, grid, mode, beyond, align),
        }
    })
}

fn plan(
    rank: usize,
    x: &Tensor,
    grid: &Tensor,
    mode: i64,
    beyond: i64,
    align: bool,
) -> Result<(Sampling, Dims)> {
    let (sizes, places) = (x.sizes(), grid.sizes());
    check_same_dtype(x, grid)?;
    let fits = sizes.len() == rank + 2
        && places.len() == rank + 2
        && sizes[0] == places[0]
        && places[rank + 1] == rank as i64;
    if !fits || sizes[2..].contains(&0) {
        return Err(Error::shape(format!(
            "grid_sampler(): expected input [N, C, …] with {rank} non-empty dimensions and grid [N, …, {rank}], but got \
             {sizes:?} and {places:?}"
        )));
    }
    let interpolation = match mode {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 if rank == 2 => Interpolation::Cubic,
        2 => {
            return Err(Error::invalid_argument(
                "grid_sampler(): bicubic interpolation only supports 4D input",
            ));
        }
        other => return Err(Error::invalid_argument(format!("unknown interpolation mode {other}"))),
    };
    let beyond = match beyond {
        0 => Beyond::Zeros,
        1 => Beyond::Border,
        2 => Beyond::Reflection,
        other => return Err(Error::invalid_argument(format!("unknown padding mode {other}"))),
    };
    let mut output = Dims::from(&sizes[..2]);
    output.extend(places[1..=rank].iter().copied());
    c10_core::bytes::numel(&output)?;
    let sampling = Sampling {
        interpolation,
        beyond,
        align_corners: align,
        channels: sizes[1] as usize,
        input: spatial(&sizes, rank),
        places: places[1..=rank].iter().product::<i64>() as usize,
        rank,
    };
    dispatch!(x.dtype(), "grid_sampler", [f16, bf16, f32, f64], T => {
        let _: Option<T> = None;
        Ok(())
    })?;
    Ok((sampling, output))
}

fn sampled(rank: usize, x: &Tensor, grid: &Tensor, mode: i64, beyond: i64, align: bool) -> Result<Tensor> {
    let (sampling, output) = plan(rank, x, grid, mode, beyond, align)?;
    let made = image(Dest::New, output, x.dtype(), MemoryFormat::Contiguous, [x, grid], |[x, grid], out| {
        dispatch!(x.dtype(), "grid_sampler", [f16, bf16, f32, f64], T => {
            sample::<T>(&sampling, x.slice()?, grid.slice()?, out.slice()?);
            Ok(())
        })
    })?;
    Ok(made.new_tensor())
}

#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn gradients(
    rank: usize,
    grad: &Tensor,
    x: &Tensor,
    grid: &Tensor,
    mode: i64,
    beyond: i64,
    align: bool,
    mask: &[bool],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let (sampling, output) = plan(rank, x, grid, mode, beyond, align)?;
    check_same_dtype(grad, x)?;
    check_sizes("grad_output", grad, &output)?;
    let &[of_input, of_grid] = mask else {
        return Err(Error::invalid_argument("output_mask must have two elements"));
    };
    let new = |like: &Tensor| New::contiguous(like.sizes(), like.dtype(), like.device()).make();
    let (grad_input, grad_grid) = (new(x)?, new(grid)?);
    if !grad.is_meta() {
        let (grad, x, grid) = (grad.to_contiguous()?, x.to_contiguous()?, grid.to_contiguous()?);
        let reads = [&grad, &x, &grid];
        access(reads, [&grad_input, &grad_grid], Fresh::Yes, |[grad, x, grid], [grad_input, grad_grid]| {
            dispatch!(grad.dtype(), "grid_sampler_backward", [f16, bf16, f32, f64], T => {
                let (grad_input, grad_grid) = (grad_input.slice::<T>()?, grad_grid.slice::<T>()?);
                if grad_input.is_empty() || grad_grid.is_empty() {
                    grad_input.fill(T::default());
                    grad_grid.fill(T::default());
                    return Ok(());
                }
                sample_backward::<T>(&sampling, grad.slice()?, x.slice()?, grid.slice()?, grad_input, grad_grid);
                Ok(())
            })
        })?;
    }
    Ok((of_input.then_some(grad_input), of_grid.then_some(grad_grid)))
}
