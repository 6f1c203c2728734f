//! Operators on images `[batch, channels, …]`, or `[channels, …]`, whose kernels read and write row-major
//! elements: what they share.

use c10_core::{MemoryFormat, ScalarType};

use super::{Dest, Made};
use crate::error::{Error, Result};
use crate::tensor::{Dims, New, Read, Tensor, Write, access};

/// The dimensions that a kernel moves over, at most; fewer are preceded by ones.
pub(super) const DIMS: usize = 3;

/// Makes a result in a memory format by a kernel that writes it row-major. `inputs` are lent row-major.
pub(super) fn image<const R: usize>(
    dest: Dest<'_>,
    sizes: Dims,
    dtype: ScalarType,
    format: MemoryFormat,
    inputs: [&Tensor; R],
    kernel: impl FnOnce([Read<'_>; R], Write<'_>) -> Result<()>,
) -> Result<Made> {
    let [made] = images([dest], sizes, [dtype], format, inputs, |reads, [write]| kernel(reads, write))?;
    Ok(made)
}

/// As [`image`], with several results of the same sizes.
pub(super) fn images<const R: usize, const W: usize>(
    dests: [Dest<'_>; W],
    sizes: Dims,
    dtypes: [ScalarType; W],
    format: MemoryFormat,
    inputs: [&Tensor; R],
    kernel: impl FnOnce([Read<'_>; R], [Write<'_>; W]) -> Result<()>,
) -> Result<[Made; W]> {
    let device = inputs[0].device();
    if let Some(other) = inputs.iter().find(|input| input.device() != device) {
        return Err(Error::new(
            crate::ErrorKind::Device,
            format!("expected all tensors on one device, found {device} and {}", other.device()),
        ));
    }
    let strides = crate::shape::strides_of_format(&sizes, format)?;
    let mut outputs = Vec::with_capacity(W);
    for (dest, dtype) in dests.into_iter().zip(dtypes) {
        outputs.push(dest.output(New::strided(sizes.clone(), strides.clone(), dtype, device), &inputs)?);
    }
    if outputs.iter().all(|output| !output.is_meta() && output.tensor().numel() > 0) {
        let lent = inputs.iter().map(|input| input.to_contiguous()).collect::<Result<Vec<_>>>()?;
        let row_major = outputs
            .iter()
            .map(|output| match output.tensor() {
                tensor if tensor.is_contiguous() => Ok(tensor.clone()),
                tensor => New::contiguous(sizes.clone(), tensor.dtype(), device).make(),
            })
            .collect::<Result<Vec<_>>>()?;
        let fresh = outputs[0].fresh();
        let reads: [&Tensor; R] = std::array::from_fn(|index| &lent[index]);
        access(reads, std::array::from_fn(|index| &row_major[index]), fresh, kernel)?;
        for (output, row_major) in outputs.iter().zip(&row_major) {
            if !output.tensor().is_same(row_major) {
                output.copy_from(row_major)?;
            }
        }
    }
    let made = outputs.into_iter().map(super::dest::Output::finish).collect::<Result<Vec<_>>>()?;
    Ok(made.try_into().expect("one for each destination"))
}

/// The sizes of the last `rank` dimensions.
pub(super) fn spatial(sizes: &[i64], rank: usize) -> [usize; DIMS] {
    moved(&sizes[sizes.len() - rank..], 1)
}

/// Numbers for the last dimensions, with `default` for those before them.
pub(super) fn moved(values: &[i64], default: usize) -> [usize; DIMS] {
    let lead = DIMS - values.len();
    std::array::from_fn(|dim| dim.checked_sub(lead).map_or(default, |dim| values[dim] as usize))
}

/// A number for each of `rank` dimensions; one alone stands for all.
pub(super) fn numbers(name: &str, values: &[i64], rank: usize) -> Result<Vec<i64>> {
    match values {
        [one] => Ok(vec![*one; rank]),
        values if values.len() == rank => Ok(values.to_vec()),
        values => Err(Error::invalid_argument(format!(
            "{name} must be one number or {rank}, and has {}",
            values.len()
        ))),
    }
}

/// An image has `rank` dimensions after the channels, perhaps a batch before them, and no other of size 0.
pub(super) fn check_image(tensor: &Tensor, rank: usize) -> Result<()> {
    let sizes = tensor.sizes();
    let batched = sizes.len() == rank + 2;
    let is_image = batched || sizes.len() == rank + 1;
    if is_image && !sizes[usize::from(batched)..].contains(&0) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {sizes:?}",
        rank + 1,
        rank + 2
    )))
}

/// The sizes of an image with other ones for the last dimensions.
pub(super) fn resized(sizes: &[i64], last: &[i64]) -> Result<Dims> {
    let lead = sizes.len() - last.len();
    let resized: Dims = sizes[..lead].iter().chain(last).copied().collect();
    c10_core::bytes::numel(&resized)?;
    Ok(resized)
}

/// The two are of one dtype.
pub(super) fn check_same_dtype(a: &Tensor, b: &Tensor) -> Result<()> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "expected tensors of one dtype, found {} and {}",
        a.dtype().name(),
        b.dtype().name()
    )))
}

/// A gradient has the sizes of what it is the gradient of.
pub(super) fn check_sizes(name: &str, tensor: &Tensor, sizes: &[i64]) -> Result<()> {
    if tensor.sizes() == sizes {
        return Ok(());
    }
    Err(Error::shape(format!("Expected {name} of size {sizes:?}, got {:?}", tensor.sizes())))
}
