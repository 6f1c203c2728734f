//! From a tensor to a structure.

use std::ptr::{self, NonNull};

use c10_core::storage::{Access, AccessOptions};

use super::sealed::Layout;
use super::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor, FLAG_READ_ONLY, ManagedTensor,
};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Geometry, Tensor};

/// What a structure points into, kept until its deleter runs.
struct Owner {
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _tensor: Tensor,
}

impl ManagedTensor<DLManagedTensorVersioned> {
    /// A structure on the memory of a tensor, which stays alive with it (`to_dlpack`). Nothing is copied,
    /// except memory that is shared copy-on-write. Strides of dimensions of size 1 are given as 1.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a tensor with the conjugate or negative bit,
    /// [`ErrorKind::NotImplemented`] for a device that DLPack or this does not know, [`ErrorKind::Shape`]
    /// when the storage has shrunk below the tensor; else as [`Access`].
    pub fn new(tensor: &Tensor) -> Result<Self> {
        Self::of(tensor)
    }
}

impl ManagedTensor<DLManagedTensor> {
    /// As [`new`](ManagedTensor::new), without a version: for consumers of before DLPack 1.0.
    ///
    /// # Errors
    /// As there; [`ErrorKind::ReadOnly`] for memory that must not be written, because the structure cannot
    /// say so.
    pub fn without_version(tensor: &Tensor) -> Result<Self> {
        Self::of(tensor)
    }
}

impl<M: Layout> ManagedTensor<M> {
    fn of(tensor: &Tensor) -> Result<Self> {
        check_bits(tensor)?;
        let device = DLDevice::of(tensor.device()).ok_or_else(|| {
            Error::not_implemented(format!("memory on {} cannot be shared by DLPack", tensor.device()))
        })?;
        let dtype = DLDataType::of(tensor.dtype()).ok_or_else(|| {
            Error::not_implemented(format!("{} cannot be shared by DLPack", tensor.dtype()))
        })?;
        let geometry = tensor.geometry();
        let is_read_only = geometry.storage.is_read_only();
        if is_read_only && !M::HAS_FLAGS {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "read-only memory can be shared only by DLPack's structure with a version",
            ));
        }
        let data = address(&geometry, tensor.device().is_cpu(), tensor.dtype().element_size())?;
        let shape: Box<[i64]> = geometry.sizes.iter().copied().collect();
        let one = |(&size, &stride): (&i64, &i64)| if size == 1 { 1 } else { stride };
        let strides: Box<[i64]> = geometry.sizes.iter().zip(&*geometry.strides).map(one).collect();
        let array = DLTensor {
            data: data.cast(),
            device,
            ndim: i32::try_from(shape.len()).map_err(|_| Error::shape("a tensor of so many dimensions"))?,
            dtype,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let flags = if is_read_only { FLAG_READ_ONLY } else { 0 };
        Ok(Self { raw: leak(array, flags, (shape, strides), tensor.clone()), exported: Some(tensor.clone()) })
    }
}

/// Differs from PyTorch: its exporter looks at the conjugate bit alone.
fn check_bits(tensor: &Tensor) -> Result<()> {
    let bits = [(tensor.is_conj(), "conjugate"), (tensor.is_neg(), "negative")];
    match bits.into_iter().find(|&(is_set, _)| is_set) {
        // PyTorch's text.
        Some((_, bit)) => {
            Err(Error::invalid_argument(format!("Can't export tensors with the {bit} bit set")))
        }
        None => Ok(()),
    }
}

/// Where the first element is, once the memory is the storage's own and no device uses it; null without
/// elements.
fn address(geometry: &Geometry, host: bool, element: usize) -> Result<*mut u8> {
    if geometry.numel == 0 {
        return Ok(ptr::null_mut());
    }
    let storage = &geometry.storage;
    let options = AccessOptions { bump_version: false, host };
    let (reads, writes): (&[_], &[_]) =
        if storage.is_read_only() { (&[storage], &[]) } else { (&[], &[storage]) };
    let access = Access::acquire_with(reads, writes, options)?;
    if geometry.end_bytes > storage.nbytes() {
        return Err(Error::shape(format!(
            "the storage has shrunk to {} bytes, and the tensor needs {}",
            storage.nbytes(),
            geometry.end_bytes
        )));
    }
    let data = storage.data_ptr().cast_mut().wrapping_add(geometry.storage_offset as usize * element);
    drop(access);
    Ok(data)
}

/// Gives all of it to a structure that frees it.
fn leak<M: Layout>(
    array: DLTensor,
    flags: u64,
    exported: (Box<[i64]>, Box<[i64]>),
    tensor: Tensor,
) -> NonNull<M> {
    let (shape, strides) = exported;
    let owner = NonNull::from(Box::leak(Box::new(Owner { shape, strides, _tensor: tensor })));
    // SAFETY: it was leaked just now, and nobody else has it.
    let Owner { shape, strides, .. } = unsafe { &mut *owner.as_ptr() };
    let array = DLTensor { shape: shape.as_mut_ptr(), strides: strides.as_mut_ptr(), ..array };
    let managed = M::make(array, flags, owner.as_ptr().cast(), delete::<M>);
    NonNull::from(Box::leak(Box::new(managed)))
}

/// The deleter.
unsafe extern "C" fn delete<M: Layout>(managed: *mut M) {
    // SAFETY: `leak` boxed it, and a deleter runs once, on its own structure.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: so did it with the owner.
    drop(unsafe { Box::from_raw(managed.context().cast::<Owner>()) });
}
