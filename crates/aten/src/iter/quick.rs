//! The plan of most operators: operands of one shape, dtype, device and dense layout, beside numbers. They
//! are walked as one dimension, and nothing has to be compared dimension by dimension.
//!
//! What it plans, `plan` would plan with the same result; what is not so simple is left to it.

use std::borrow::Cow;

use c10_core::{MemoryFormat, Scalar, ScalarType};

use super::operand::{Operand, Snapshot, Source};
use super::{Config, Input, TensorIter};
use crate::error::Result;
use crate::ops::Dest;
use crate::tensor::{Geometry, Tensor, dense_like};

/// Plans `iter`, which is empty, if the operands are of the simple kind. It is filled where it is, since it
/// is large to move.
pub(super) fn plan<'a>(
    iter: &mut TensorIter<'a>,
    dests: &[Dest<'a>],
    inputs: &[Input<'a>],
    config: Config,
) -> Result<bool> {
    let [dest] = dests else { return Ok(false) };
    let Some(first) = first_tensor(inputs) else { return Ok(false) };
    let Some(geometry) = unchanged(first) else { return Ok(false) };
    let common = first.dtype();
    if first.is_wrapped_number()
        || first.has_math_bits()
        || !geometry.flags.is_non_overlapping_and_dense()
        || (config.integers_to_float && common.is_integral(true))
        || !inputs.iter().all(|input| is_alike(input, first, geometry, config))
    {
        return Ok(false);
    }
    let output_dtype = config.output_dtype.unwrap_or(common);
    if let Some(given) = dest.given()
        && !is_writable(given, first, geometry, inputs, output_dtype, config)
    {
        return Ok(false);
    }

    iter.operands.push(match dest.given() {
        Some(given) => borrowed(given),
        None => {
            let tensor = dense_like(geometry, output_dtype, first.device())?;
            one_dimension(Source::Fresh(tensor), output_dtype)
        }
    });
    for input in inputs {
        iter.operands.push(match *input {
            Input::Tensor(tensor) | Input::Uncast(tensor) => borrowed(tensor),
            Input::Number(number) => {
                let mut operand = Operand::number_of(number, common)?;
                operand.strides.push(0);
                operand
            }
        });
    }
    iter.outputs = 1;
    iter.numel = geometry.numel;
    iter.sizes.push(geometry.numel);
    iter.device = first.device();
    iter.common_dtype = common;
    Ok(true)
}

/// A tensor that takes part in promotion.
fn first_tensor<'a>(inputs: &[Input<'a>]) -> Option<&'a Tensor> {
    inputs.iter().find_map(|input| match input {
        Input::Tensor(tensor) => Some(*tensor),
        _ => None,
    })
}

fn unchanged(tensor: &Tensor) -> Option<&Geometry> {
    match tensor.geometry() {
        Cow::Borrowed(geometry) => Some(geometry),
        Cow::Owned(_) => None,
    }
}

/// Whether an input is walked as `first` is, and needs no cast.
fn is_alike(input: &Input<'_>, first: &Tensor, geometry: &Geometry, config: Config) -> bool {
    let (tensor, own_dtype) = match *input {
        Input::Number(number) => return config.promote && keeps_dtype(number, first.dtype()),
        Input::Tensor(tensor) if tensor.is_same(first) => return true,
        Input::Tensor(tensor) => (tensor, !config.promote && !config.same_dtypes),
        Input::Uncast(tensor) => (tensor, true),
    };
    (own_dtype || tensor.dtype() == first.dtype())
        && !tensor.is_wrapped_number()
        && !tensor.has_math_bits()
        && tensor.device() == first.device()
        && unchanged(tensor).is_some_and(|other| same_layout(geometry, other))
}

/// Whether the common dtype of a tensor and a number is the tensor's, by its category alone.
fn keeps_dtype(number: Scalar, dtype: ScalarType) -> bool {
    if number.is_complex() {
        return dtype.is_complex();
    }
    if number.is_integral(false) {
        return dtype != ScalarType::Bool;
    }
    number.is_bool() || dtype.is_floating_point() || dtype.is_complex()
}

fn same_layout(a: &Geometry, b: &Geometry) -> bool {
    let contiguous = |g: &Geometry| g.flags.is_contiguous(MemoryFormat::Contiguous);
    a.sizes == b.sizes && (a.strides == b.strides || (contiguous(a) && contiguous(b)))
}

/// Whether the loop can write to a given tensor as it is.
fn is_writable(
    given: &Tensor,
    first: &Tensor,
    geometry: &Geometry,
    inputs: &[Input<'_>],
    dtype: ScalarType,
    config: Config,
) -> bool {
    let own_dtype = !config.promote && !config.same_dtypes;
    if (!own_dtype && given.dtype() != dtype) || given.device() != first.device() || given.has_math_bits() {
        return false;
    }
    if given.is_same(first) && inputs.len() == 1 {
        return true;
    }
    let Some(written) = unchanged(given) else { return false };
    let apart = |input: &Input<'_>| match input {
        Input::Number(_) => true,
        Input::Tensor(tensor) | Input::Uncast(tensor) => {
            tensor.is_same(given)
                || unchanged(tensor).is_some_and(|read| !read.storage.is_same(&written.storage))
        }
    };
    same_layout(geometry, written) && inputs.iter().all(apart)
}

#[inline(always)]
fn borrowed(tensor: &Tensor) -> Operand<'_> {
    one_dimension(Source::Borrowed(Snapshot::of(tensor)), tensor.dtype())
}

#[inline(always)]
fn one_dimension(source: Source<'_>, dtype: ScalarType) -> Operand<'_> {
    let mut operand = Operand::new(source, dtype);
    operand.strides.push(dtype.element_size() as i64);
    operand
}
