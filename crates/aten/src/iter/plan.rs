//! How a [`TensorIter`] is made: shape, dtypes, outputs, and the order of the dimensions.

use std::cmp::Ordering;

use c10_core::{Device, ScalarType};
use smallvec::SmallVec;

use super::operand::{Operand, Source};
use super::promote::ResultType;
use super::{Config, Input, TensorIter, overlap};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::{Dest, Made};
use crate::shape;
use crate::tensor::{Dims, New, Tensor, default_dtype};

/// Strides of an operand in elements, one for each dimension of the common shape, outermost first.
type Strides = Dims;

/// Operands of any kind, outputs first.
#[derive(Debug)]
pub(super) struct General<'a> {
    pub(super) operands: SmallVec<[Operand<'a>; 4]>,
    /// Innermost first; adjacent dimensions that all operands walk as one are one.
    pub(super) sizes: Dims,
}

impl General<'_> {
    /// What became of the first of so many outputs.
    pub(super) fn finish(&mut self, outputs: usize) -> Result<Made> {
        let [first, others @ ..] = &mut self.operands[..outputs] else { return Ok(Made::written()) };
        let made = first.finish()?;
        others.iter_mut().try_for_each(|operand| operand.finish().map(drop))?;
        Ok(made)
    }
}

/// Plans `iter`, which has no plan.
pub(super) fn plan<'a>(
    iter: &mut TensorIter<'a>,
    dests: &[Dest<'a>],
    inputs: &[Input<'a>],
    config: Config,
) -> Result<()> {
    let device = common_device(dests, inputs)?;
    let common = common_dtype(dests, inputs, config)?;
    let mut read: SmallVec<[Operand<'a>; 4]> = SmallVec::new();
    for input in inputs {
        read.push(input_operand(input, common, config, device)?);
    }
    let sizes = common_shape(dests, &read)?;
    let mut input_strides: SmallVec<[Strides; 4]> = SmallVec::new();
    for operand in &read {
        input_strides.push(broadcast(operand, &sizes)?);
    }
    let output_dtype = config.output_dtype.unwrap_or(common);

    let mut operands: SmallVec<[Operand<'a>; 4]> = SmallVec::new();
    let mut strides: SmallVec<[Strides; 4]> = SmallVec::new();
    let order = order(&sizes, dests, &input_strides);
    for dest in dests {
        check_overlap(*dest, inputs)?;
        let operand = output_operand(*dest, &sizes, &order, output_dtype, device, config)?;
        strides.push(broadcast(&operand, &sizes)?);
        operands.push(operand);
    }
    operands.extend(read);
    strides.extend(input_strides);
    iter.numel = c10_core::bytes::numel(&sizes)?;
    let sizes = coalesce(&sizes, &order, &mut operands, &strides);
    iter.general = Some(General { operands, sizes });
    (iter.outputs, iter.device, iter.common_dtype) = (dests.len(), device, common);
    Ok(())
}

/// The device of all; tensors of no dimension on the CPU go with any.
fn common_device(dests: &[Dest<'_>], inputs: &[Input<'_>]) -> Result<Device> {
    let mut device: Option<Device> = None;
    let mut zero_dim = None;
    let tensors = inputs.iter().filter_map(tensor_of).chain(dests.iter().filter_map(|dest| dest.given()));
    for tensor in tensors {
        if tensor.device().is_cpu() && tensor.rank() == 0 {
            zero_dim = Some(tensor.device());
            continue;
        }
        match device {
            Some(device) if device != tensor.device() => {
                return Err(Error::new(
                    ErrorKind::Device,
                    format!(
                        "Expected all tensors to be on the same device, but found at least two devices, {device} and {}!",
                        tensor.device()
                    ),
                ));
            }
            _ => device = Some(tensor.device()),
        }
    }
    Ok(device.or(zero_dim).unwrap_or(Device::CPU))
}

fn tensor_of<'a>(input: &Input<'a>) -> Option<&'a Tensor> {
    match input {
        Input::Tensor(tensor) | Input::Uncast(tensor) => Some(tensor),
        Input::Number(_) => None,
    }
}

fn common_dtype(dests: &[Dest<'_>], inputs: &[Input<'_>], config: Config) -> Result<ScalarType> {
    let first = || {
        inputs
            .iter()
            .find_map(|input| if let Input::Tensor(tensor) = input { Some(tensor.dtype()) } else { None })
            .or_else(|| dests.iter().find_map(|dest| dest.given().map(Tensor::dtype)))
    };
    let common = if config.promote { ResultType::of_inputs(inputs)? } else { first() };
    let common = common.unwrap_or(default_dtype());
    if config.same_dtypes {
        check_same_dtypes(common, inputs)?;
    }
    if config.integers_to_float && common.is_integral(true) {
        return Ok(default_dtype());
    }
    Ok(common)
}

fn check_same_dtypes(common: ScalarType, inputs: &[Input<'_>]) -> Result<()> {
    for input in inputs {
        if let Input::Tensor(tensor) = input
            && tensor.dtype() != common
        {
            return Err(Error::dtype(format!(
                "Found dtype {} but expected {}",
                tensor.dtype().c10_name(),
                common.c10_name()
            )));
        }
    }
    Ok(())
}

/// The inputs' shapes, broadcast, which must be that of an in-place output.
fn common_shape(dests: &[Dest<'_>], inputs: &[Operand<'_>]) -> Result<Dims> {
    let mut sizes: Option<Dims> = None;
    for geometry in inputs.iter().filter_map(Operand::geometry) {
        sizes = match sizes {
            None => Some(geometry.sizes.clone()),
            Some(sizes) if *sizes == *geometry.sizes => Some(sizes),
            Some(sizes) => Some(shape::broadcast(&sizes, &geometry.sizes)?),
        };
    }
    let given = || dests.iter().find_map(|dest| dest.given()).map(Tensor::sizes);
    let sizes = sizes.or_else(given).unwrap_or_default();
    for dest in dests {
        // Inputs may be smaller than what is written in place, and not larger.
        if let Dest::InPlace(tensor) = dest
            && *tensor.geometry().sizes != *sizes
        {
            let written = tensor.sizes();
            if *shape::broadcast(&written, &sizes)? == *written {
                return Ok(written);
            }
            return Err(Error::shape(format!(
                "output with shape {:?} doesn't match the broadcast shape {sizes:?}",
                tensor.sizes()
            )));
        }
    }
    Ok(sizes)
}

fn input_operand<'a>(
    input: &Input<'a>,
    common: ScalarType,
    config: Config,
    device: Device,
) -> Result<Operand<'a>> {
    let (tensor, dtype) = match *input {
        Input::Number(number) => return Operand::number_of(number, common),
        Input::Tensor(tensor) if config.promote || config.same_dtypes => (tensor, common),
        Input::Tensor(tensor) | Input::Uncast(tensor) => (tensor, tensor.dtype()),
    };
    // A number beside tensors of another device goes along by value.
    let by_value = tensor.is_wrapped_number() || tensor.device() != device;
    if by_value && tensor.rank() == 0 && tensor.device().is_cpu() {
        return Operand::number_of(tensor.item()?, dtype);
    }
    let source = if tensor.dtype() == dtype && !tensor.has_math_bits() {
        Source::Borrowed(tensor.geometry())
    } else {
        Source::Cast(tensor.to_dtype(dtype)?)
    };
    Ok(Operand::new(source, dtype))
}

/// The strides of an operand over the common shape: 0 where it is repeated.
fn broadcast(operand: &Operand<'_>, sizes: &[i64]) -> Result<Strides> {
    let mut strides = Dims::filled(0, sizes.len());
    let Some(geometry) = operand.geometry() else { return Ok(strides) };
    let lead = sizes.len().checked_sub(geometry.sizes.len()).ok_or_else(changed)?;
    for (dim, &size) in geometry.sizes.iter().enumerate() {
        if size == sizes[lead + dim] {
            strides[lead + dim] = geometry.strides[dim];
        } else if size != 1 {
            return Err(changed());
        }
    }
    Ok(strides)
}

#[cold]
fn changed() -> Error {
    Error::new(ErrorKind::Busy, "another thread changes the sizes of a tensor in use")
}

fn output_operand<'a>(
    dest: Dest<'a>,
    sizes: &Dims,
    order: &[usize],
    dtype: ScalarType,
    device: Device,
    config: Config,
) -> Result<Operand<'a>> {
    let Some(given) = dest.given() else {
        let tensor = New::strided(sizes.clone(), strides_in_order(sizes, order)?, dtype, device).make()?;
        return Ok(Operand::new(Source::Fresh(tensor), dtype));
    };
    let one_dtype = config.promote || config.same_dtypes;
    if one_dtype && !c10_core::can_cast(dtype, given.dtype()) {
        return Err(Error::dtype(format!(
            "result type {} can't be cast to the desired output type {}",
            dtype.c10_name(),
            given.dtype().c10_name()
        )));
    }
    overlap::check_no_internal_overlap(given)?;
    if *given.geometry().sizes != **sizes {
        given.resize_for_output(sizes, &strides_in_order(sizes, order)?)?;
    }
    if (one_dtype && given.dtype() != dtype) || given.has_math_bits() {
        let dtype = if one_dtype { dtype } else { given.dtype() };
        let dense = shape::dense_strides_like(sizes, &given.strides())?;
        let tensor = New::strided(sizes.clone(), dense, dtype, device).make()?;
        return Ok(Operand { copy_to: Some(given), ..Operand::new(Source::Fresh(tensor), dtype) });
    }
    let geometry = given.geometry();
    if *geometry.sizes != **sizes {
        return Err(changed());
    }
    Ok(Operand::new(Source::Borrowed(geometry), given.dtype()))
}

fn check_overlap(dest: Dest<'_>, inputs: &[Input<'_>]) -> Result<()> {
    let Some(written) = dest.given() else { return Ok(()) };
    inputs.iter().filter_map(tensor_of).try_for_each(|read| overlap::check_no_partial_overlap(written, read))
}

/// The strides of a new output over inputs of those strides, each of which covers all dimensions: for operators
/// that find their elements in another way, and lay out results as if they did not.
pub(crate) fn result_strides(sizes: &[i64], inputs: &[Dims]) -> Result<Dims> {
    strides_in_order(sizes, &order(sizes, &[], inputs))
}

/// The dimensions, innermost first, in which a tensor is walked that is written alone.
pub(crate) fn walk_order(tensor: &Tensor) -> SmallVec<[usize; 6]> {
    let geometry = tensor.geometry();
    order(&geometry.sizes, &[], std::slice::from_ref(&geometry.strides))
}

/// Dense strides with the dimensions in an order, innermost first.
fn strides_in_order(sizes: &[i64], order: &[usize]) -> Result<Dims> {
    let mut strides = Dims::filled(1, sizes.len());
    let mut next = 1_i64;
    for &dim in order {
        strides[dim] = next;
        next = next.checked_mul(sizes[dim].max(1)).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("Stride calculation overflowed with sizes={sizes:?}"))
        })?;
    }
    Ok(strides)
}

/// The dimensions, innermost first, in the order that the operands' strides ask for; the first operand that
/// says something about two dimensions decides.
fn order(sizes: &[i64], dests: &[Dest<'_>], inputs: &[Strides]) -> SmallVec<[usize; 6]> {
    let mut order: SmallVec<[usize; 6]> = (0..sizes.len()).rev().collect();
    if sizes.len() < 2 {
        return order;
    }
    let given: SmallVec<[Strides; 2]> = dests
        .iter()
        .filter_map(|dest| dest.given())
        .map(Tensor::geometry)
        .filter(|geometry| *geometry.sizes == *sizes)
        .map(|geometry| geometry.strides.clone())
        .collect();
    let compare = |a: usize, b: usize| {
        for strides in given.iter().chain(inputs) {
            if strides[a] == 0 || strides[b] == 0 {
                continue;
            }
            match strides[a].cmp(&strides[b]) {
                Ordering::Equal if sizes[a] > sizes[b] => return Ordering::Greater,
                Ordering::Equal => {}
                decided => return decided,
            }
        }
        Ordering::Equal
    };
    for i in 1..order.len() {
        let mut at = i;
        for below in (0..i).rev() {
            match compare(order[below], order[at]) {
                Ordering::Greater => {
                    order.swap(below, at);
                    at = below;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    order
}

/// Gives the operands their strides in bytes, innermost first, with neighbours made one where every operand
/// walks them as one. Returns the sizes.
fn coalesce(sizes: &[i64], order: &[usize], operands: &mut [Operand<'_>], strides: &[Strides]) -> Dims {
    let mut merged = Dims::new();
    for &dim in order {
        let size = sizes[dim];
        let byte_stride = |i: usize, operands: &[Operand<'_>]| {
            strides[i][dim].saturating_mul(operands[i].dtype.element_size() as i64)
        };
        let last = merged.len().wrapping_sub(1);
        let joins = !merged.is_empty()
            && (size == 1
                || merged[last] == 1
                || (0..operands.len()).all(|i| {
                    merged[last].saturating_mul(operands[i].strides[last]) == byte_stride(i, operands)
                }));
        if joins {
            if merged[last] == 1 {
                for i in 0..operands.len() {
                    operands[i].strides[last] = byte_stride(i, operands);
                }
            }
            merged[last] *= size;
        } else {
            merged.push(size);
            for i in 0..operands.len() {
                let stride = byte_stride(i, operands);
                operands[i].strides.push(stride);
            }
        }
    }
    merged
}
