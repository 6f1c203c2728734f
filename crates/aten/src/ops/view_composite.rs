//! Views made of other views, whose derivatives are those of their parts.

use c10_core::{Device, ScalarType};

use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::handles;
use crate::shape::{self, wrap_dim};
use crate::tensor::{DiagonalOptions, SliceOptions, SplitWithSizesOptions, Tensor};
use crate::view::{chunk_lengths, flattened, moved, narrowed, section_lengths, unflattened};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_shapes(lib)?;
    register_dimensions(lib)?;
    register_splits(lib)?;
    lib.composite("real", real)?;
    lib.composite("imag", imag)?;
    lib.composite("positive", positive)
}

fn register_shapes(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("view_as", |x: &Tensor, other: &Tensor| x.view(&other.sizes()))?;
    lib.composite("reshape", reshape)?;
    lib.composite("reshape_as", |x: &Tensor, other: &Tensor| x.reshape(&other.sizes()))?;
    lib.composite("flatten.using_ints", flatten)?;
    lib.composite("ravel", |x: &Tensor| -> Result<Tensor> { x.contiguous()?.view(&[-1]) })?;
    lib.composite("unflatten.int", |x: &Tensor, dim: i64, sizes: &[i64]| -> Result<Tensor> {
        x.view(&unflattened(&x.sizes(), dim, sizes)?)
    })?;
    lib.composite("expand_as", |x: &Tensor, other: &Tensor| x.expand(&other.sizes()))?;
    lib.composite("broadcast_to", |x: &Tensor, size: &[i64]| x.expand(size))?;
    lib.composite("narrow", narrow)?;
    lib.composite("narrow.Tensor", narrow_tensor)
}

fn register_dimensions(lib: &mut Library<'_>) -> Result<()> {
    for name in ["movedim.int", "moveaxis.int"] {
        lib.composite(name, |x: &Tensor, from: i64, to: i64| movedim(x, &[from], &[to]))?;
    }
    for name in ["movedim.intlist", "moveaxis.intlist"] {
        lib.composite(name, movedim)?;
    }
    for name in ["swapaxes", "swapdims"] {
        lib.composite(name, |x: &Tensor, dim0: i64, dim1: i64| x.transpose(dim0, dim1))?;
    }
    for name in ["numpy_T", "numpy_T.a"] {
        lib.composite(name, |x: &Tensor| x.permute(&(0..x.rank() as i64).rev().collect::<Vec<_>>()))?;
    }
    for name in ["mT", "mT.a"] {
        lib.composite(name, |x: &Tensor| last_two_swapped(x, "tensor.mT"))?;
    }
    for name in ["mH", "mH.a"] {
        lib.composite(name, |x: &Tensor| -> Result<Tensor> { last_two_swapped(x, "tensor.mH")?.conj() })?;
    }
    lib.composite("adjoint", |x: &Tensor| -> Result<Tensor> {
        last_two_swapped(x, "tensor.adjoint()")?.conj()
    })?;
    for name in ["matrix_H", "matrix_H.a"] {
        lib.composite(name, matrix_h)?;
    }
    lib.composite("linalg_diagonal", |x: &Tensor, offset: i64, dim1: i64, dim2: i64| {
        x.diagonal_with(DiagonalOptions { offset, dim1, dim2 })
    })
}

fn register_splits(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("split.sizes", |x: &Tensor, sizes: &[i64], dim: i64| split_with_sizes(x, sizes, dim))?;
    for name in ["chunk", "unsafe_chunk"] {
        lib.composite(name, |x: &Tensor, chunks: i64, dim: i64| -> Result<Vec<Tensor>> {
            let dim = first_dimension(x, dim, "chunk expects at least a 1-dimensional tensor")?;
            split_with_sizes(x, &chunk_lengths(x.sizes()[dim], chunks)?, dim as i64)
        })?;
    }
    lib.composite("tensor_split.sections", tensor_split)?;
    lib.composite("tensor_split.indices", tensor_split_indices)?;
    lib.composite("tensor_split.tensor_indices_or_sections", tensor_split_tensor)?;
    lib.composite("hsplit.int", |x: &Tensor, sections: i64| equal_parts(x, sections, Axis::Columns))?;
    lib.composite("vsplit.int", |x: &Tensor, sections: i64| equal_parts(x, sections, Axis::Rows))?;
    lib.composite("dsplit.int", |x: &Tensor, sections: i64| equal_parts(x, sections, Axis::Depth))?;
    lib.composite("hsplit.array", |x: &Tensor, indices: &[i64]| -> Result<Vec<Tensor>> {
        tensor_split_indices(x, indices, Axis::Columns.of(x)?)
    })?;
    lib.composite("vsplit.array", |x: &Tensor, indices: &[i64]| -> Result<Vec<Tensor>> {
        tensor_split_indices(x, indices, Axis::Rows.of(x)?)
    })?;
    lib.composite("dsplit.array", |x: &Tensor, indices: &[i64]| -> Result<Vec<Tensor>> {
        tensor_split_indices(x, indices, Axis::Depth.of(x)?)
    })
}

fn reshape(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    let geometry = x.geometry();
    let sizes = shape::infer_size(size, geometry.numel)?;
    let fits = shape::strides_in_shape(&geometry.sizes, &geometry.strides, &sizes).is_some();
    drop(geometry);
    if fits { x.view(&sizes) } else { x.contiguous()?._unsafe_view(&sizes) }
}

fn flatten(x: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    match flattened(&x.sizes(), start, end)? {
        Some(sizes) => x.reshape(&sizes),
        None => Ok(x.clone()),
    }
}

fn narrow(x: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    // What `slice` would do, where it is the view alone.
    if let Some(keys) = handles::SLICE_TENSOR.operator()?.keys_of_own_view(x) {
        return Ok(x.part(|place| place.narrow(dim, start, length))?.linked_to(x, keys));
    }
    // `slice` cuts what is beyond the end; that it is there is checked here.
    let (dim, start) = narrowed(&x.geometry().sizes, dim, start, length)?;
    x.slice_with(SliceOptions { dim: dim as i64, start: Some(start), end: Some(start + length), step: 1 })
}

fn narrow_tensor(x: &Tensor, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
    if start.rank() != 0 || !start.dtype().is_integral(false) {
        return Err(Error::invalid_argument("start must be an 0-dim integral Tensor."));
    }
    x.narrow(dim, start.item()?.to::<i64>()?, length)
}

fn movedim(x: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    let order = moved(x.rank(), source, destination)?;
    if x.rank() == 0 { x.alias() } else { x.permute(&order) }
}

fn last_two_swapped(x: &Tensor, what: &str) -> Result<Tensor> {
    match x.rank() {
        0 => x.permute(&[]),
        1 => Err(Error::shape(format!(
            "{what} is only supported on matrices or batches of matrices. Got 1-D tensor."
        ))),
        _ => x.transpose(-2, -1),
    }
}

fn matrix_h(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        0 => x.permute(&[])?.conj(),
        2 => x.transpose(0, 1)?.conj(),
        rank => Err(Error::shape(format!(
            "tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor."
        ))),
    }
}

fn split_with_sizes(x: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    x.split_with_sizes_with(sizes, SplitWithSizesOptions { dim })
}

fn first_dimension(x: &Tensor, dim: i64, otherwise: &str) -> Result<usize> {
    if x.rank() == 0 { Err(Error::shape(otherwise)) } else { wrap_dim(dim, x.rank()) }
}

fn needs_a_dimension(x: &Tensor, dim: i64) -> Result<usize> {
    first_dimension(
        x,
        dim,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
    )
}

fn tensor_split(x: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    let dim = needs_a_dimension(x, dim)?;
    split_with_sizes(x, &section_lengths(x.sizes()[dim], sections)?, dim as i64)
}

/// Each part ends before the next index; places may be negative, beyond the end, and before the last ones.
fn tensor_split_indices(x: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let dim = needs_a_dimension(x, dim)? as i64;
    let starts = std::iter::once(0).chain(indices.iter().copied());
    let ends = indices.iter().copied().map(Some).chain(std::iter::once(None));
    starts
        .zip(ends)
        .map(|(start, end)| x.slice_with(SliceOptions { dim, start: Some(start), end, step: 1 }))
        .collect()
}

fn tensor_split_tensor(x: &Tensor, places: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    const WHAT: &str = "tensor_split expected tensor_indices_or_sections to";
    if places.device() != Device::CPU {
        return Err(Error::new(
            ErrorKind::Device,
            format!("{WHAT} be on cpu, but it's on {}", places.device()),
        ));
    }
    if places.dtype() != ScalarType::Int64 {
        return Err(Error::dtype(format!("{WHAT} have dtype of long, but got {}", places.dtype().name())));
    }
    match places.rank() {
        0 => tensor_split(x, places.item()?.to::<i64>()?, dim),
        1 => tensor_split_indices(x, &places.to_vec::<i64>()?, dim),
        rank => Err(Error::shape(format!(
            "{WHAT} be a zero-dimensional or one-dimensional tensor, but got a tensor with {rank} dims"
        ))),
    }
}

/// What `hsplit`, `vsplit` and `dsplit` split along.
#[derive(Clone, Copy, Debug)]
enum Axis {
    Columns,
    Rows,
    Depth,
}

impl Axis {
    /// The dimension, where the tensor has it.
    fn of(self, x: &Tensor) -> Result<i64> {
        let (least, dim) = match self {
            Self::Columns => (1, i64::from(x.rank() > 1)),
            Self::Rows => (2, 0),
            Self::Depth => (3, 2),
        };
        if x.rank() >= least {
            return Ok(dim);
        }
        Err(Error::shape(format!(
            "torch.{} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
            self.name(),
            x.rank()
        )))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Columns => "hsplit",
            Self::Rows => "vsplit",
            Self::Depth => "dsplit",
        }
    }
}

fn equal_parts(x: &Tensor, sections: i64, axis: Axis) -> Result<Vec<Tensor>> {
    let dim = axis.of(x)?;
    let size = x.sizes()[dim as usize];
    if sections == 0 || size % sections != 0 {
        return Err(Error::shape(format!(
            "torch.{} attempted to split along dimension {dim}, but the size of the dimension {size} is not \
             divisible by the split_size {sections}!",
            axis.name()
        )));
    }
    tensor_split(x, sections, dim)
}

fn real(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return Ok(x.clone());
    }
    unconjugated(x)?.view_as_real()?.select(-1, 0)
}

/// What `x` is the conjugate of, where it is a pending one.
fn unconjugated(x: &Tensor) -> Result<Tensor> {
    if x.is_conj() { x._conj() } else { Ok(x.clone()) }
}

fn imag(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let part = unconjugated(x)?.view_as_real()?.select(-1, 1)?;
        return if x.is_conj() { part._neg_view() } else { Ok(part) };
    }
    Err(Error::dtype("imag is not implemented for tensors with non-complex dtypes."))
}

fn positive(x: &Tensor) -> Result<Tensor> {
    if x.dtype() == ScalarType::Bool {
        return Err(Error::dtype("The `+` operator, on a bool tensor is not supported."));
    }
    Ok(x.clone())
}
