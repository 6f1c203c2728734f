//! Tensors of Rust values, and of storages that are there.

use c10_core::{Device, Element, ScalarType, Storage};

use super::access::write_elements;
use super::geometry::{Extent, Geometry};
use super::{Dims, New, Tensor};
use crate::error::{Error, Result};

impl Tensor {
    /// A tensor on the host with a copy of `elements` in row-major order.
    ///
    /// ```
    /// let tensor = aten::Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(tensor.strides(), [2, 1]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when there are not as many as the sizes say.
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[i64]) -> Result<Self> {
        if c10_core::bytes::numel(sizes)? != elements.len() as i64 {
            return Err(Error::shape(format!(
                "{} elements are no tensor of sizes {sizes:?}",
                elements.len()
            )));
        }
        let tensor = New::contiguous(sizes, T::SCALAR_TYPE, Device::CPU).make()?;
        write_elements(&tensor, elements)?;
        Ok(tensor)
    }

    /// A tensor of one dimension, of a copy of `elements`.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn from_elements<T: Element>(elements: &[T]) -> Result<Self> {
        Self::from_slice(elements, &[elements.len() as i64])
    }

    /// A tensor of elements in `storage`, which it shares with whoever else has it. Offset and strides count
    /// elements.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when they are not all in the storage.
    pub fn from_storage(
        storage: Storage,
        dtype: ScalarType,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<Self> {
        let device = storage.device();
        let extent = Extent::within(&storage, sizes, strides, storage_offset, dtype)?;
        let (sizes, strides) = (Dims::from(sizes), Dims::from(strides));
        let geometry = || Geometry::of_extent(storage, sizes, strides, storage_offset, extent);
        Ok(Self::made_of(geometry, dtype, device, Self::keys_of(device)))
    }
}
