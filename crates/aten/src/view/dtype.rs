//! The same bytes as elements of another dtype.

use c10_core::ScalarType;

use super::Strided;
use super::strided::overflowed;
use crate::error::{Error, Result};
use crate::tensor::{Geometry, Tensor};

/// `view.dtype`: elements of another size change the last dimension.
pub(crate) fn view_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    check_view_dtype(tensor)?;
    let (old, new) = (tensor.dtype().element_size() as i64, dtype.element_size() as i64);
    let mut place = Strided::of(tensor);
    if old == new {
        return with_dtype(tensor, place, dtype);
    }
    let what = format!("to view {} as {} (different element sizes)", tensor.dtype().name(), dtype.name());
    let Some(last) = place.rank().checked_sub(1) else {
        return Err(Error::shape(format!("self.dim() cannot be 0 {what}")));
    };
    if place.strides[last] != 1 {
        return Err(Error::shape(format!(
            "self.stride(-1) must be 1 {what}, but got {}",
            place.strides[last]
        )));
    }
    if old > new {
        grow(&mut place, last, old / new)?;
    } else {
        shrink(&mut place, last, new / old, &what)?;
    }
    with_dtype(tensor, place, dtype)
}

/// PyTorch's texts, and its rule: also where the dtype stays.
fn check_view_dtype(tensor: &Tensor) -> Result<()> {
    let what = match (tensor.is_conj(), tensor.is_neg()) {
        (true, _) => "conjugate view tensors",
        (_, true) => "tensors with negative bit set",
        _ => return Ok(()),
    };
    Err(Error::invalid_argument(format!(
        "torch.Tensor.view is not supported for {what} when converting to a different dtype."
    )))
}

/// Each element becomes `ratio` smaller ones.
fn grow(place: &mut Strided, last: usize, ratio: i64) -> Result<()> {
    for stride in place.strides[..last].iter_mut() {
        *stride = stride.checked_mul(ratio).ok_or_else(overflowed)?;
    }
    place.sizes[last] = place.sizes[last].checked_mul(ratio).ok_or_else(overflowed)?;
    place.storage_offset = place.storage_offset.checked_mul(ratio).ok_or_else(overflowed)?;
    Ok(())
}

/// Every `ratio` elements become a greater one.
fn shrink(place: &mut Strided, last: usize, ratio: i64, what: &str) -> Result<()> {
    let check = |number: i64, name: &str| match number % ratio {
        0 => Ok(number / ratio),
        _ => Err(Error::shape(format!("self.{name} must be divisible by {ratio} {what}, but got {number}"))),
    };
    place.sizes[last] = check(place.sizes[last], "size(-1)")?;
    place.storage_offset = check(place.storage_offset, "storage_offset()")?;
    for (dim, stride) in place.strides[..last].iter_mut().enumerate() {
        *stride = check(*stride, &format!("stride({dim})"))?;
    }
    Ok(())
}

/// `view_as_real`: real and imaginary parts as a last dimension of size 2.
pub(crate) fn view_as_real(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.dtype().is_complex() {
        return Err(Error::dtype("view_as_real is only supported for complex tensors"));
    }
    if tensor.is_conj() {
        // PyTorch's text.
        return Err(Error::invalid_argument(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can \
             view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the \
             original.",
        ));
    }
    let mut place = Strided::of(tensor);
    let rank = place.rank();
    place.sizes.push(1);
    place.strides.push(1);
    grow(&mut place, rank, 2)?;
    with_dtype(tensor, place, tensor.dtype().to_real())
}

/// `view_as_complex`: a last dimension of size 2 becomes real and imaginary parts.
pub(crate) fn view_as_complex(tensor: &Tensor) -> Result<Tensor> {
    let dtype = tensor.dtype();
    if !matches!(dtype, ScalarType::Float16 | ScalarType::Float32 | ScalarType::Float64) {
        return Err(Error::not_implemented(format!(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: \
             {}",
            dtype.name()
        )));
    }
    let mut place = Strided::of(tensor);
    let Some(last) = place.rank().checked_sub(1) else {
        return Err(Error::shape("Input tensor must have one or more dimensions"));
    };
    if place.sizes[last] != 2 {
        return Err(Error::shape("Tensor must have a last dimension of size 2"));
    }
    if place.strides[last] != 1 {
        return Err(Error::shape("Tensor must have a last dimension with stride 1"));
    }
    place.remove(last);
    if place.strides.iter().any(|stride| stride % 2 != 0) {
        return Err(Error::shape("Tensor must have a stride divisible by 2 for all but last dimension"));
    }
    if place.storage_offset % 2 != 0 {
        return Err(Error::shape("Tensor must have a storage_offset divisible by 2"));
    }
    place.strides.iter_mut().for_each(|stride| *stride /= 2);
    place.storage_offset /= 2;
    with_dtype(tensor, place, dtype.to_complex()?)
}

fn with_dtype(tensor: &Tensor, place: Strided, dtype: ScalarType) -> Result<Tensor> {
    let Strided { sizes, strides, storage_offset } = place;
    let geometry = Geometry::new(tensor.storage(), sizes, strides, storage_offset, dtype)?;
    Ok(Tensor::from_geometry(geometry, dtype, tensor.device(), tensor.key_set()))
}
