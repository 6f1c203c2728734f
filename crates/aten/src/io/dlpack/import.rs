//! From a structure to a tensor.

use std::slice;

use c10_core::storage::StorageOptions;
use c10_core::{DataPtr, Device, ScalarType, Storage};

use super::sealed::Layout;
use super::{DLTensor, FLAG_READ_ONLY, ManagedTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::io::packed::new_tensor;
use crate::shape;
use crate::tensor::{Dims, Geometry, Tensor};

/// What a structure says, checked.
struct Array {
    first: *mut u8,
    device: Device,
    dtype: ScalarType,
    sizes: Dims,
    strides: Dims,
    /// From the first element to the end of the last.
    bytes: usize,
    is_read_only: bool,
}

impl<M: Layout> ManagedTensor<M> {
    /// A tensor on the memory (`from_dlpack`), which is deleted with the last that shares it. It cannot be
    /// resized, nor written where the structure forbids it. What is not aligned for its type is copied. One
    /// that was made of a tensor here gives that tensor's view.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`] for another major version, [`ErrorKind::Dtype`] for a type and
    /// [`ErrorKind::Device`] for a device that tensors here do not have, [`ErrorKind::Shape`] for sizes or
    /// strides that are none, [`ErrorKind::InvalidArgument`] for memory at null or, on a device, misaligned,
    /// [`ErrorKind::Overflow`]. The structure is deleted then.
    pub fn into_tensor(mut self) -> Result<Tensor> {
        if let Some(tensor) = self.exported.take() {
            let geometry = tensor.geometry();
            return tensor.view_of(geometry.sizes.clone(), geometry.strides.clone(), geometry.storage_offset);
        }
        let (array, flags) = self.as_raw().array()?;
        let array = Array::check(array, flags)?;
        if array.device.is_cpu() && array.bytes > 0 && !array.is_aligned() {
            return array.copied();
        }
        array.into_tensor(self)
    }
}

impl Array {
    fn check(array: &DLTensor, flags: u64) -> Result<Self> {
        let dtype = array.dtype.scalar_type().ok_or_else(|| {
            Error::dtype(format!("the array is of DLPack's type {:?}, which no tensor here has", array.dtype))
        })?;
        let device = array.device.device().ok_or_else(|| {
            Error::new(
                ErrorKind::Device,
                format!("the array is on DLPack's device {:?}, which is none here", array.device),
            )
        })?;
        let rank = usize::try_from(array.ndim)
            .map_err(|_| Error::shape(format!("the array has {} dimensions", array.ndim)))?;
        let sizes = numbers(array.shape, rank)
            .ok_or_else(|| Error::shape("the array has dimensions and no sizes"))?;
        let strides = strides(&sizes, numbers(array.strides, rank).filter(|_| !array.strides.is_null()))?;
        let bytes = c10_core::bytes::strided_bytes(&sizes, &strides, dtype.element_size(), 0)?;
        let offset = usize::try_from(array.byte_offset)
            .map_err(|_| Error::new(ErrorKind::Overflow, "the array's offset is beyond all memory"))?;
        if bytes > 0 && array.data.is_null() {
            return Err(Error::invalid_argument(format!("the array has {bytes} bytes at address null")));
        }
        let array = Self {
            first: array.data.cast::<u8>().wrapping_add(offset),
            device,
            dtype,
            sizes,
            strides,
            bytes,
            is_read_only: flags & FLAG_READ_ONLY != 0,
        };
        if !array.device.is_cpu() && !array.is_aligned() {
            return Err(Error::invalid_argument(format!(
                "the array begins at {:?}, which is not aligned for {}",
                array.first, array.dtype
            )));
        }
        Ok(array)
    }

    fn is_aligned(&self) -> bool {
        (self.first as usize).is_multiple_of(self.dtype.to_real().element_size())
    }

    /// A tensor of its own memory.
    fn copied(self) -> Result<Tensor> {
        // SAFETY: the owner, who is alive, says that all up to the last element is initialised memory of the
        // host, and that nobody writes it meanwhile; the bounds were computed without overflow.
        let bytes = unsafe { slice::from_raw_parts(self.first, self.bytes) };
        new_tensor(self.sizes, Some(self.strides), self.dtype, |memory| {
            memory[..bytes.len()].copy_from_slice(bytes);
        })
    }

    /// A tensor of memory that `owner` keeps alive.
    fn into_tensor<M: Layout>(self, owner: ManagedTensor<M>) -> Result<Tensor> {
        let Self { first, device, dtype, sizes, strides, bytes, is_read_only } = self;
        let data_ptr = if bytes == 0 {
            drop(owner);
            DataPtr::null(device)
        } else {
            // SAFETY: whoever made the owner of a raw structure has promised that the memory is valid until
            // it is dropped, which may be on any thread.
            unsafe { DataPtr::from_closure(first, device, move || drop(owner)) }
        };
        let options = StorageOptions { allocator: None, resizable: false, read_only: is_read_only };
        // SAFETY: so they have that it is initialised up to the last element, and this storage's alone to
        // reach.
        let storage = unsafe { Storage::from_data_ptr(data_ptr, bytes, options)? };
        let geometry = Geometry::new(storage, sizes, strides, 0, dtype)?;
        Ok(Tensor::from_geometry(geometry, dtype, device, Tensor::keys_of(device)))
    }
}

/// `rank` numbers; `None` when there should be some and are none.
fn numbers(first: *const i64, rank: usize) -> Option<Dims> {
    if rank == 0 {
        return Some(Dims::new());
    }
    if first.is_null() {
        return None;
    }
    // SAFETY: the structure has as many sizes, and as many strides unless they are null, as it has
    // dimensions.
    Some(unsafe { slice::from_raw_parts(first, rank) }.into())
}

/// The strides that tensors have: those of no consequence are as in a contiguous one.
fn strides(sizes: &Dims, strides: Option<Dims>) -> Result<Dims> {
    let mut contiguous = shape::contiguous_strides(sizes)?;
    let Some(strides) = strides else { return Ok(contiguous) };
    let is_empty = sizes.contains(&0);
    for ((kept, &stride), &size) in contiguous.iter_mut().zip(&*strides).zip(&**sizes) {
        if stride >= 0 {
            *kept = stride;
        } else if size > 1 && !is_empty {
            return Err(Error::shape(format!(
                "the array has the negative stride {stride} in {:?}, which no tensor has: copy it first",
                &*strides
            )));
        }
    }
    Ok(contiguous)
}
