//! Enlarging and shrinking of images: nearest, linear and cubic.

use c10_core::{MemoryFormat, ScalarType, bf16, f16};

use super::images::{DIMS, check_image, check_sizes, image, resized, spatial};
use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::blend::{Axis, Blends, Weight, blend, blend_backward, blend_bytes};
use crate::kernels::cpu::gather::{Tables, gather, scatter_add};
use crate::tensor::{Dims, Tensor};

/// How elements between elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear { align_corners: bool },
    Cubic { align_corners: bool },
}

type Scales<'a> = &'a [Option<f64>];

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_nearest(lib)?;
    register_blends(lib)?;
    register_vectors(lib)
}

fn register_nearest(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! nearest {
        ($($name:literal, $mode:ident, ($($scale:ident),*);)*) => {$(
            lib.cpu_meta($name, |x: &Tensor, output: &[i64], $($scale: Option<f64>),*| {
                upsample(x, output, &[$($scale),*], Mode::$mode)
            })?;
            lib.cpu_meta(
                concat!($name, "_backward"),
                |grad: &Tensor, output: &[i64], input: &[i64], $($scale: Option<f64>),*| {
                    upsample_backward(grad, output, input, &[$($scale),*], Mode::$mode)
                },
            )?;
        )*};
    }
    nearest! {
        "upsample_nearest1d", Nearest, (width);
        "upsample_nearest2d", Nearest, (height, width);
        "upsample_nearest3d", Nearest, (depth, height, width);
        "_upsample_nearest_exact1d", NearestExact, (width);
        "_upsample_nearest_exact2d", NearestExact, (height, width);
        "_upsample_nearest_exact3d", NearestExact, (depth, height, width);
    }
    Ok(())
}

fn register_blends(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! blends {
        ($($name:literal, $mode:ident, ($($scale:ident),*);)*) => {$(
            lib.cpu_meta($name, |x: &Tensor, output: &[i64], align_corners: bool, $($scale: Option<f64>),*| {
                upsample(x, output, &[$($scale),*], Mode::$mode { align_corners })
            })?;
            lib.cpu_meta(
                concat!($name, "_backward"),
                |grad: &Tensor, output: &[i64], input: &[i64], align_corners: bool, $($scale: Option<f64>),*| {
                    upsample_backward(grad, output, input, &[$($scale),*], Mode::$mode { align_corners })
                },
            )?;
        )*};
    }
    blends! {
        "upsample_linear1d", Linear, (width);
        "upsample_bilinear2d", Linear, (height, width);
        "upsample_trilinear3d", Linear, (depth, height, width);
        "upsample_bicubic2d", Cubic, (height, width);
    }
    Ok(())
}

/// The forms that take all scales in one list, or sizes.
fn register_vectors(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! vectors {
        ($($name:literal, $handle:ident, $rank:literal, ($($at:literal),*), ($($align:ident)?);)*) => {$(
            lib.composite(
                $name,
                |x: &Tensor, output: Option<&[i64]>, $($align: bool,)? scales: Option<&[f64]>| {
                    let output = vector_sizes(x, output, scales, $rank)?;
                    let scale = |dim: usize| scales.map(|scales| scales[dim]);
                    handles::$handle.call(x, &output, $($align,)? $(scale($at)),*)
                },
            )?;
        )*};
    }
    vectors! {
        "upsample_nearest1d.vec", UPSAMPLE_NEAREST1D, 1, (0), ();
        "upsample_nearest2d.vec", UPSAMPLE_NEAREST2D, 2, (0, 1), ();
        "upsample_nearest3d.vec", UPSAMPLE_NEAREST3D, 3, (0, 1, 2), ();
        "_upsample_nearest_exact1d.vec", _UPSAMPLE_NEAREST_EXACT1D, 1, (0), ();
        "_upsample_nearest_exact2d.vec", _UPSAMPLE_NEAREST_EXACT2D, 2, (0, 1), ();
        "_upsample_nearest_exact3d.vec", _UPSAMPLE_NEAREST_EXACT3D, 3, (0, 1, 2), ();
        "upsample_linear1d.vec", UPSAMPLE_LINEAR1D, 1, (0), (align);
        "upsample_bilinear2d.vec", UPSAMPLE_BILINEAR2D, 2, (0, 1), (align);
        "upsample_trilinear3d.vec", UPSAMPLE_TRILINEAR3D, 3, (0, 1, 2), (align);
        "upsample_bicubic2d.vec", UPSAMPLE_BICUBIC2D, 2, (0, 1), (align);
    }
    Ok(())
}

fn vector_sizes(x: &Tensor, output: Option<&[i64]>, scales: Option<&[f64]>, rank: usize) -> Result<Vec<i64>> {
    let sizes = x.sizes();
    if sizes.len() != rank + 2 {
        return Err(Error::shape(format!("expected {} dimensions, got {sizes:?}", rank + 2)));
    }
    match (output, scales) {
        (Some(output), None) if output.len() == rank => Ok(output.to_vec()),
        (None, Some(scales)) if scales.len() == rank => {
            Ok(sizes[2..].iter().zip(scales).map(|(&size, scale)| (size as f64 * scale) as i64).collect())
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(Error::invalid_argument("Must specify exactly one of output_size and scale_factors"))
        }
        _ => {
            Err(Error::invalid_argument(format!("expected {rank} numbers for output_size or scale_factors")))
        }
    }
}

/// The memory format of a gradient. PyTorch's kernels differ.
fn backward_format(grad: &Tensor, rank: usize, mode: Mode) -> MemoryFormat {
    match (mode, rank) {
        (Mode::Cubic { .. }, _) | (Mode::Nearest | Mode::NearestExact, 3) => MemoryFormat::Contiguous,
        _ => grad.suggest_memory_format(),
    }
}

fn check_output(output: &[i64], rank: usize) -> Result<()> {
    if output.len() == rank && output.iter().all(|&len| len > 0) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "expected {rank} output sizes, each greater than 0, but got {output:?}"
    )))
}

fn check_dtype(dtype: ScalarType, operator: &str) -> Result<()> {
    dispatch!(dtype, operator, [u8, f16, bf16, f32, f64], T => {
        let _: Option<T> = None;
        Ok(())
    })
}

fn upsample(x: &Tensor, output: &[i64], scales: Scales<'_>, mode: Mode) -> Result<Tensor> {
    let rank = scales.len();
    check_output(output, rank)?;
    if x.rank() != rank + 2 {
        return Err(Error::shape(format!(
            "Non-empty {}D data tensor expected but got {:?}",
            rank + 2,
            x.sizes()
        )));
    }
    check_image(x, rank)?;
    check_dtype(x.dtype(), "upsample")?;
    let sizes = resized(&x.sizes(), output)?;
    let (from, to) = (spatial(&x.sizes(), rank), spatial(&sizes, rank));
    let made = image(Dest::New, sizes, x.dtype(), x.suggest_memory_format(), [x], |[x], out| {
        let blended = matches!(mode, Mode::Linear { .. } | Mode::Cubic { .. });
        if blended && x.dtype() == ScalarType::UInt8 {
            blend_bytes(&blends(from, to, scales, mode), x.slice()?, out.slice()?);
            return Ok(());
        }
        dispatch!(x.dtype(), "upsample", [u8, f16, bf16, f32, f64], T => {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            match tables(from, to, scales, mode) {
                Some(tables) => gather(&tables, x, out),
                None => blend::<T>(&blends(from, to, scales, mode), x, out),
            }
            Ok(())
        })
    })?;
    Ok(made.new_tensor())
}

fn upsample_backward(
    grad: &Tensor,
    output: &[i64],
    input: &[i64],
    scales: Scales<'_>,
    mode: Mode,
) -> Result<Tensor> {
    let rank = scales.len();
    check_output(output, rank)?;
    if input.len() != rank + 2 || input[2..].iter().any(|&len| len < 1) {
        return Err(Error::invalid_argument(format!(
            "It is expected input_size equals to {}, got {input:?}",
            rank + 2
        )));
    }
    c10_core::bytes::numel(input)?;
    check_sizes("grad_output", grad, &resized(input, output)?)?;
    check_dtype(grad.dtype(), "upsample_backward")?;
    let (from, to) = (spatial(input, rank), spatial(&grad.sizes(), rank));
    let format = backward_format(grad, rank, mode);
    let made = image(Dest::New, Dims::from(input), grad.dtype(), format, [grad], |[grad], out| {
        dispatch!(grad.dtype(), "upsample_backward", [u8, f16, bf16, f32, f64], T => {
            let (grad, out) = (grad.slice::<T>()?, out.slice::<T>()?);
            match tables(from, to, scales, mode) {
                Some(tables) => scatter_add(&tables, grad, out),
                None => blend_backward::<T>(&blends(from, to, scales, mode), grad, out),
            }
            Ok(())
        })
    })?;
    Ok(made.new_tensor())
}

/// How far apart, in elements of the input, adjacent elements of the output are.
fn step<W: Weight>(input: usize, output: usize, scale: Option<f64>) -> W {
    match scale.filter(|&scale| scale > 0.0) {
        Some(scale) => W::of(1.0 / scale),
        None => W::of(input as f64) / W::of(output as f64),
    }
}

/// Where the nearest elements are, if that is all there is to it.
fn tables(from: [usize; DIMS], to: [usize; DIMS], scales: Scales<'_>, mode: Mode) -> Option<Tables> {
    let offset = match mode {
        Mode::Nearest => 0.0,
        Mode::NearestExact => 0.5,
        Mode::Linear { .. } | Mode::Cubic { .. } => return None,
    };
    let axes = std::array::from_fn(|dim| {
        let (input, output) = (from[dim], to[dim]);
        let step: f32 = step(input, output, scale_of(scales, dim));
        (0..output)
            .map(|index| match mode {
                _ if input == output => index,
                Mode::Nearest if Some(output) == input.checked_mul(2) => index / 2,
                _ => (((index as f32 + offset) * step).floor() as usize).min(input - 1),
            })
            .collect()
    });
    Some(Tables { axes, input: from })
}

fn scale_of(scales: Scales<'_>, dim: usize) -> Option<f64> {
    dim.checked_sub(DIMS - scales.len()).and_then(|dim| scales[dim])
}

fn blends<W: Weight>(from: [usize; DIMS], to: [usize; DIMS], scales: Scales<'_>, mode: Mode) -> Blends<W> {
    let lead = DIMS - scales.len();
    let axes = std::array::from_fn(|dim| {
        let (input, output) = (from[dim], to[dim]);
        let scale = scale_of(scales, dim);
        match mode {
            _ if dim < lead => Axis { taps: 1, places: vec![0], weights: vec![W::of(1.0)] },
            Mode::Cubic { align_corners } => cubic(input, output, align_corners, scale),
            Mode::Linear { align_corners } => linear(input, output, align_corners, scale),
            Mode::Nearest | Mode::NearestExact => linear(input, output, false, scale),
        }
    });
    Blends { axes, input: from }
}

/// Where in the input an element of the output stands.
fn source<W: Weight>(
    input: usize,
    output: usize,
    align_corners: bool,
    scale: Option<f64>,
) -> impl Fn(usize) -> W {
    let step: W = match align_corners {
        true if output > 1 => W::of((input - 1) as f64) / W::of((output - 1) as f64),
        true => W::of(0.0),
        false => step(input, output, scale),
    };
    let half = W::of(0.5);
    move |index| {
        let index = W::of(index as f64);
        if align_corners { step * index } else { step * (index + half) - half }
    }
}

fn linear<W: Weight>(input: usize, output: usize, align_corners: bool, scale: Option<f64>) -> Axis<W> {
    let source = source::<W>(input, output, align_corners, scale);
    let (zero, one) = (W::of(0.0), W::of(1.0));
    let mut axis = Axis { taps: 2, places: Vec::new(), weights: Vec::new() };
    for index in 0..output {
        if input == output {
            axis.places.extend([index, index]);
            axis.weights.extend([one, zero]);
            continue;
        }
        let at = source(index);
        let at = if at < zero { zero } else { at };
        let first = (at.to_i64() as usize).min(input - 1);
        let rest = at - W::of(first as f64);
        let rest = if rest > one { one } else { rest };
        axis.places.extend([first, (first + 1).min(input - 1)]);
        axis.weights.extend([one - rest, rest]);
    }
    axis
}

fn cubic<W: Weight>(input: usize, output: usize, align_corners: bool, scale: Option<f64>) -> Axis<W> {
    let source = source::<W>(input, output, align_corners, scale);
    let mut axis = Axis { taps: 4, places: Vec::new(), weights: Vec::new() };
    for index in 0..output {
        let at = source(index);
        let first = at.floor();
        let near = |tap: i64| first.to_i64().saturating_add(tap).clamp(0, input as i64 - 1) as usize;
        axis.places.extend([-1, 0, 1, 2].map(near));
        axis.weights.extend(cubic_weights(at - first));
    }
    axis
}

/// The weights of the four elements around a place, `rest` after the second: a cubic convolution with the
/// coefficient -0.75.
pub(super) fn cubic_weights<W: Weight>(rest: W) -> [W; 4] {
    let number = W::of;
    let a = number(-0.75);
    let near = |x: W| ((a + number(2.0)) * x - (a + number(3.0))) * x * x + number(1.0);
    let far = |x: W| ((a * x - number(5.0) * a) * x + number(8.0) * a) * x - number(4.0) * a;
    let one = number(1.0);
    [far(rest + one), near(rest), near(one - rest), far(number(2.0) - rest)]
}
