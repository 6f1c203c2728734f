//! [`Reduction`]: which dimensions an operator reduces, and the shape that is left.

use c10_core::ScalarType;
use smallvec::SmallVec;

use super::{Dest, Made, Output};
use crate::error::{Error, Result};
use crate::shape::{wrap_dim, wrap_dims};
use crate::tensor::{Dims, New, Tensor};

/// The dimensions reduced, and the sizes of the result.
#[derive(Debug)]
pub(crate) struct Reduction {
    pub(crate) mask: SmallVec<[bool; 6]>,
    pub(crate) sizes: Dims,
    /// How many elements each output has.
    pub(crate) count: i64,
}

impl Reduction {
    /// All dimensions.
    pub(crate) fn all(input: &Tensor, keepdim: bool) -> Result<Self> {
        Self::of_mask(SmallVec::from_elem(true, input.rank()), input, keepdim)
    }

    /// One of them.
    pub(crate) fn dim(input: &Tensor, dim: i64, keepdim: bool) -> Result<Self> {
        Self::dims(input, &[dim], keepdim)
    }

    /// Some, each once.
    pub(crate) fn dims(input: &Tensor, dims: &[i64], keepdim: bool) -> Result<Self> {
        let mut mask: SmallVec<[bool; 6]> = SmallVec::from_elem(false, input.rank());
        for dim in wrap_dims(dims, input.rank())? {
            // A tensor without dimensions has one that may be named.
            if let Some(is_reduced) = mask.get_mut(dim) {
                *is_reduced = true;
            }
        }
        Self::of_mask(mask, input, keepdim)
    }

    /// As [`dims`](Self::dims), where none means all.
    pub(crate) fn dims_or_all(input: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Self> {
        match dims {
            None | Some([]) => Self::all(input, keepdim),
            Some(dims) => Self::dims(input, dims, keepdim),
        }
    }

    /// As [`dim`](Self::dim), where none means all.
    pub(crate) fn dim_or_all(input: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Self> {
        match dim {
            None => Self::all(input, keepdim),
            Some(dim) => Self::dim(input, dim, keepdim),
        }
    }

    fn of_mask(mask: SmallVec<[bool; 6]>, input: &Tensor, keepdim: bool) -> Result<Self> {
        if mask.len() > 64 {
            // PyTorch's text.
            return Err(Error::shape("only tensors with up to 64 dims are supported"));
        }
        let geometry = input.geometry();
        let dims = || geometry.sizes.iter().zip(&mask);
        let count = dims().filter(|(_, is_reduced)| **is_reduced).map(|(size, _)| *size).product();
        let sizes = dims()
            .filter(|(_, is_reduced)| keepdim || !**is_reduced)
            .map(|(&size, &is_reduced)| if is_reduced { 1 } else { size })
            .collect();
        Ok(Self { mask, sizes, count })
    }

    /// Refuses to reduce a dimension without elements: what has no value for that (`zero_numel_check_dims`).
    pub(crate) fn check_not_empty(&self, input: &Tensor, name: &str, is_full: bool) -> Result<()> {
        let geometry = input.geometry();
        if geometry.numel > 0 {
            return Ok(());
        }
        if is_full {
            return Err(Error::index(format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction \
                 dim with the 'dim' argument."
            )));
        }
        let empty =
            self.mask.iter().zip(&geometry.sizes).position(|(&is_reduced, &size)| is_reduced && size == 0);
        match empty {
            None => Ok(()),
            Some(dim) => {
                Err(Error::index(format!("{name}(): Expected reduction dim {dim} to have non-zero size.")))
            }
        }
    }

    /// The result, to be written.
    pub(crate) fn output<'a>(&self, dest: Dest<'a>, dtype: ScalarType, input: &Tensor) -> Result<Output<'a>> {
        dest.output(New::contiguous(self.sizes.clone(), dtype, input.device()), &[input])
    }

    /// The result of a kernel that makes one of `kernel_dtype`, in `dtype`.
    pub(crate) fn run(
        &self,
        dest: Dest<'_>,
        dtype: ScalarType,
        kernel_dtype: ScalarType,
        input: &Tensor,
        kernel: impl FnOnce(&Output<'_>) -> Result<()>,
    ) -> Result<Made> {
        let out = self.output(dest, dtype, input)?;
        if !out.is_meta() {
            if kernel_dtype == dtype {
                kernel(&out)?;
            } else {
                let made = self.output(Dest::New, kernel_dtype, input)?;
                kernel(&made)?;
                out.copy_from(made.tensor())?;
            }
        }
        out.finish()
    }
}

/// Refuses a given result of another dtype than the operator makes.
pub(crate) fn check_out_dtype(dest: Dest<'_>, dtype: ScalarType) -> Result<()> {
    match dest.given() {
        Some(given) if given.dtype() != dtype => Err(Error::dtype(format!(
            "Expected out tensor to have dtype {}, but got {} instead",
            dtype.name(),
            given.dtype().name()
        ))),
        _ => Ok(()),
    }
}

/// The dtype of a sum: the one asked for, that of the given result, or `int64` for integers.
pub(crate) fn sum_dtype(dest: Dest<'_>, input: &Tensor, dtype: Option<ScalarType>) -> Result<ScalarType> {
    let given = dest.given().map(Tensor::dtype);
    let own = if input.dtype().is_integral(true) { ScalarType::Int64 } else { input.dtype() };
    let dtype = dtype.or(given).unwrap_or(own);
    check_out_dtype(dest, dtype)?;
    Ok(dtype)
}

/// Copies a result to a given tensor, resized where it must be.
pub(crate) fn store(out: &Tensor, made: &Tensor) -> Result<()> {
    let new = New::strided(made.sizes(), made.strides(), made.dtype(), made.device());
    let output = Dest::Out(out).output(new, &[made])?;
    if !output.is_meta() {
        output.copy_from(made)?;
    }
    output.finish().map(drop)
}

/// `dim` of a tensor in which one without dimensions counts as one with one element.
pub(crate) fn dim_of(input: &Tensor, dim: i64) -> Result<usize> {
    wrap_dim(dim, input.rank())
}

/// A contiguous tensor as `(before, dim, after)`.
pub(crate) fn split_at(sizes: &[i64], dim: usize) -> (usize, usize, usize) {
    let product = |sizes: &[i64]| sizes.iter().product::<i64>() as usize;
    match sizes.get(dim) {
        None => (1, 1, 1),
        Some(&size) => (product(&sizes[..dim]), size as usize, product(&sizes[dim + 1..])),
    }
}
