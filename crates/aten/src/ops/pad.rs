//! Padding: with a number, by reflection, and by repeating the edge.

use c10_core::{Complex, Scalar, bf16, f16};

use super::images::{DIMS, check_same_dtype, check_sizes, image, resized, spatial};
use super::new_options::fill_fresh;
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels;
use crate::kernels::cpu::gather::{Tables, gather, scatter_add};
use crate::tensor::{Dims, New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! pads {
        ($($name:literal, $rank:literal, $edge:ident;)*) => {$(
            lib.cpu_meta($name, |x: &Tensor, padding: &[i64]| {
                edge(Dest::New, x, padding, $rank, Edge::$edge).map(Made::new_tensor)
            })?;
            lib.cpu_meta(concat!($name, ".out"), |x: &Tensor, padding: &[i64], out: &Tensor| {
                edge(Dest::Out(out), x, padding, $rank, Edge::$edge).map(drop)
            })?;
            lib.cpu_meta(concat!($name, "_backward"), |grad: &Tensor, x: &Tensor, padding: &[i64]| {
                edge_backward(grad, x, padding, $rank, Edge::$edge)
            })?;
        )*};
    }
    pads! {
        "reflection_pad1d", 1, Reflection;
        "reflection_pad2d", 2, Reflection;
        "reflection_pad3d", 3, Reflection;
        "replication_pad1d", 1, Replication;
        "replication_pad2d", 2, Replication;
        "replication_pad3d", 3, Replication;
    }
    lib.all_backends("constant_pad_nd", constant_pad_nd)?;
    lib.composite("pad", pad)
}

/// What stands beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// The elements before the edge, backwards.
    Reflection,
    /// The element at the edge.
    Replication,
    /// The elements from the other edge on.
    Circle,
}

impl Edge {
    /// Where the element comes from that is `index` elements after the first, out of `len`.
    fn source(self, index: i64, len: i64) -> i64 {
        match self {
            Self::Reflection if index < 0 => -index,
            Self::Reflection if index >= len => 2 * (len - 1) - index,
            Self::Reflection => index,
            Self::Replication => index.clamp(0, len - 1),
            Self::Circle => index.rem_euclid(len),
        }
    }

    /// So much padding can be taken from so many elements.
    fn check(self, before: i64, after: i64, len: i64) -> Result<()> {
        let most = before.max(after);
        match self {
            Self::Reflection if most >= len => Err(Error::shape(format!(
                "Padding size should be less than the corresponding input dimension, but got: padding \
                 ({before}, {after}) at a dimension of {len}"
            ))),
            Self::Circle if most > len => {
                Err(Error::shape("Padding value causes wrapping around more than once."))
            }
            _ => Ok(()),
        }
    }
}

/// The padded sizes, and where the elements come from.
fn plan(x: &Tensor, padding: &[i64], rank: usize, edge: Edge) -> Result<(Dims, Tables)> {
    let sizes = x.sizes();
    if padding.len() != 2 * rank {
        return Err(Error::invalid_argument(format!(
            "padding must have {} numbers, and has {}",
            2 * rank,
            padding.len()
        )));
    }
    let batched = sizes.len() == rank + 2;
    if !(batched || sizes.len() == rank + 1) || sizes[usize::from(batched)..].contains(&0) {
        return Err(Error::shape(format!(
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions \
             for input, but got: {sizes:?}",
            rank + 1,
            rank + 2
        )));
    }
    let lead = sizes.len() - rank;
    let mut last = Vec::with_capacity(rank);
    let mut axes = std::array::from_fn(|_| vec![0]);
    for dim in 0..rank {
        // The first pair is that of the last dimension.
        let [before, after] = [padding[2 * (rank - 1 - dim)], padding[2 * (rank - 1 - dim) + 1]];
        let len = sizes[lead + dim];
        edge.check(before, after, len)?;
        let padded = len.checked_add(before).and_then(|padded| padded.checked_add(after));
        let padded = padded.filter(|&padded| padded >= 1).ok_or_else(|| {
            Error::shape(format!("a dimension of {len} with padding ({before}, {after}) is too small"))
        })?;
        c10_core::bytes::numel(&[padded])?;
        last.push(padded);
        if !x.is_meta() {
            axes[DIMS - rank + dim] =
                (0..padded).map(|index| edge.source(index - before, len) as usize).collect();
        }
    }
    Ok((resized(&sizes, &last)?, Tables { axes, input: spatial(&sizes, rank) }))
}

fn edge(dest: Dest<'_>, x: &Tensor, padding: &[i64], rank: usize, edge: Edge) -> Result<Made> {
    let (sizes, tables) = plan(x, padding, rank, edge)?;
    check_dtype(x)?;
    image(dest, sizes, x.dtype(), x.suggest_memory_format(), [x], |[x], out| {
        dispatch!(
            x.dtype(),
            "pad",
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
            T => {
                gather(&tables, x.slice::<T>()?, out.slice::<T>()?);
                Ok(())
            }
        )
    })
}

fn check_dtype(x: &Tensor) -> Result<()> {
    if x.dtype() == c10_core::ScalarType::Bool {
        return Err(crate::iter::loops::no_kernel("pad", x.dtype()));
    }
    Ok(())
}

fn edge_backward(grad: &Tensor, x: &Tensor, padding: &[i64], rank: usize, edge: Edge) -> Result<Tensor> {
    let (sizes, tables) = plan(x, padding, rank, edge)?;
    check_same_dtype(grad, x)?;
    check_sizes("grad_output", grad, &sizes)?;
    check_dtype(x)?;
    let made = image(Dest::New, x.sizes(), x.dtype(), x.suggest_memory_format(), [grad], |[grad], out| {
        dispatch!(
            grad.dtype(),
            "pad_backward",
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
            T => {
                scatter_add(&tables, grad.slice::<T>()?, out.slice::<T>()?);
                Ok(())
            }
        )
    })?;
    Ok(made.new_tensor())
}

fn constant_pad_nd(x: &Tensor, padding: &[i64], value: Scalar) -> Result<Tensor> {
    let sizes = x.sizes();
    let pairs = padding.len() / 2;
    if !padding.len().is_multiple_of(2) || pairs > sizes.len() {
        return Err(Error::invalid_argument(format!(
            "Length of pad must be even and at most twice the number of dimensions of the input, but got {} for {}",
            padding.len(),
            sizes.len()
        )));
    }
    let mut padded = sizes.clone();
    // What of the input is kept, and where it goes.
    let (mut kept, mut from, mut to) = (sizes.clone(), 0_i64, Dims::filled(0, sizes.len()));
    let strides = x.strides();
    for (pair, padding) in padding.chunks_exact(2).enumerate() {
        let dim = sizes.len() - 1 - pair;
        let [before, after] = [padding[0], padding[1]];
        let overflow = || Error::new(crate::ErrorKind::Overflow, "the padded size overflows");
        padded[dim] = sizes[dim]
            .checked_add(before)
            .and_then(|padded| padded.checked_add(after))
            .ok_or_else(overflow)?;
        let cut = before.min(0).checked_add(after.min(0)).ok_or_else(overflow)?;
        kept[dim] = sizes[dim].checked_add(cut).ok_or_else(overflow)?;
        if padded[dim] < 0 || kept[dim] < 0 {
            return Err(Error::shape(format!(
                "The input size {}, plus negative padding {before} and {after} resulted in a negative output size, \
                 which is invalid. Check dimension {dim} of your input.",
                sizes[dim]
            )));
        }
        from += strides[dim] * -before.min(0);
        to[dim] = before.max(0);
    }
    let format = x.suggest_memory_format();
    let strides_out = crate::shape::strides_of_format(&padded, format)?;
    let out = New::strided(padded, strides_out.clone(), x.dtype(), x.device()).make()?;
    if kept != out.sizes() || kept.contains(&0) {
        fill_fresh(&out, value)?;
    }
    if kept.contains(&0) {
        return Ok(out);
    }
    let place: i64 = to.iter().zip(&strides_out).map(|(to, stride)| to * stride).sum();
    let inside = out.view_of(kept.clone(), strides_out, place)?;
    let kept = x.view_of(kept, strides, x.storage_offset() + from)?;
    if !out.is_meta() {
        kernels::copy_fresh(&inside, &kept)?;
    }
    Ok(out)
}

fn pad(x: &Tensor, padding: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    use super::handles as op;
    if mode == "constant" {
        return op::CONSTANT_PAD_ND.call(x, padding, value.unwrap_or(0.0).into());
    }
    if value.is_some_and(|value| value != 0.0) {
        return Err(Error::invalid_argument(format!(
            "Padding mode \"{mode}\" doesn't take in value argument"
        )));
    }
    let rank = x.rank();
    let of = |pairs: usize| padding.len() == 2 * pairs && (rank == pairs + 1 || rank == pairs + 2);
    match mode {
        "reflect" if of(1) => op::REFLECTION_PAD1D.call(x, padding),
        "reflect" if of(2) => op::REFLECTION_PAD2D.call(x, padding),
        "reflect" if of(3) => op::REFLECTION_PAD3D.call(x, padding),
        "replicate" if of(1) => op::REPLICATION_PAD1D.call(x, padding),
        "replicate" if of(2) => op::REPLICATION_PAD2D.call(x, padding),
        "replicate" if of(3) => op::REPLICATION_PAD3D.call(x, padding),
        "circular" if of(1) || of(2) || of(3) => circular(x, padding),
        "reflect" | "replicate" | "circular" => Err(Error::not_implemented(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now",
        )),
        _ => Err(Error::not_implemented(format!("Unrecognised padding mode {mode}"))),
    }
}

/// Padding by the elements of the other edge, along one dimension after the other.
fn circular(x: &Tensor, padding: &[i64]) -> Result<Tensor> {
    let mut padded = x.clone();
    for (pair, padding) in padding.chunks_exact(2).enumerate() {
        let dim = x.rank() - 1 - pair;
        let (before, after, len) = (padding[0], padding[1], x.sizes()[dim]);
        Edge::Circle.check(before, after, len)?;
        let total = len + before + after;
        if total < 0 {
            return Err(Error::shape("Negative padding value is resulting in an empty dimension"));
        }
        let indices: Vec<i64> =
            (0..total).map(|index| Edge::Circle.source(index - before, len.max(1))).collect();
        let indices = if x.is_meta() {
            New::contiguous([total], c10_core::ScalarType::Int64, x.device()).make()?
        } else {
            Tensor::from_slice(&indices, &[total])?
        };
        padded = padded.index_select(dim as i64, &indices)?;
    }
    Ok(padded)
}
