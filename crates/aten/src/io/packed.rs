//! Elements as bytes in a row, out of a tensor and into a new one.

use c10_core::storage::{Access, AccessOptions};
use c10_core::{Device, ScalarType};

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dims, New, Tensor};

/// The bytes of the elements in row-major order, whatever the strides.
///
/// # Errors
/// [`ErrorKind::NotImplemented`] when the host cannot reach them, [`ErrorKind::Shape`] when the storage has
/// shrunk below the tensor; else as [`Storage::read`](c10_core::Storage::read).
pub(super) fn packed(tensor: &Tensor) -> Result<Vec<u8>> {
    check_host(tensor)?;
    let tensor = &*tensor.resolved()?;
    let geometry = tensor.geometry();
    if geometry.numel == 0 {
        return Ok(Vec::new());
    }
    let element = tensor.dtype().element_size();
    let mut packed = Vec::with_capacity(c10_core::bytes::contiguous_bytes(&geometry.sizes, element, 0)?);
    let guard = geometry.storage.read()?;
    let bytes = guard.bytes()?;
    if geometry.end_bytes > bytes.len() {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "the storage has shrunk to {} bytes, and the tensor needs {}",
                bytes.len(),
                geometry.end_bytes
            ),
        ));
    }
    let first = geometry.storage_offset as usize * element;
    let (sizes, strides) = (&geometry.sizes, &geometry.strides);
    // The innermost dimensions that lie in a row are copied at once.
    let mut row = element;
    let mut rank = sizes.len();
    while rank > 0 && (sizes[rank - 1] == 1 || strides[rank - 1] as usize * element == row) {
        row *= sizes[rank - 1] as usize;
        rank -= 1;
    }
    let mut index = vec![0; rank];
    let mut place = first;
    loop {
        packed.extend_from_slice(&bytes[place..place + row]);
        let Some(dim) = (0..rank).rev().find(|&dim| {
            let step = strides[dim] as usize * element;
            index[dim] += 1;
            place += step;
            let is_within = index[dim] < sizes[dim];
            if !is_within {
                place -= step * sizes[dim] as usize;
                index[dim] = 0;
            }
            is_within
        }) else {
            return Ok(packed);
        };
        debug_assert!(index[dim] > 0, "a dimension has moved");
    }
}

/// A new tensor on the host, whose storage `fill` writes: the bytes of the elements in the order of the
/// strides, which are dense.
///
/// # Errors
/// As for any new tensor.
pub(super) fn new_tensor(
    sizes: Dims,
    strides: Option<Dims>,
    dtype: ScalarType,
    fill: impl FnOnce(&mut [u8]),
) -> Result<Tensor> {
    let tensor = New { sizes, strides, dtype, device: Device::CPU }.make()?;
    let storage = tensor.storage();
    // Nobody has seen it yet: its version stays.
    let options = AccessOptions { bump_version: false, host: true };
    let mut access = Access::acquire_with(&[], &[&storage], options)?;
    let ([], [bytes]) = access.slices()?;
    fill(bytes);
    drop(access);
    Ok(tensor)
}

/// The elements are the host's to read.
pub(super) fn check_host(tensor: &Tensor) -> Result<()> {
    if tensor.device().is_cpu() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "the elements of a tensor on {} cannot be read from the host; copy it to the CPU first",
        tensor.device()
    )))
}

/// Turns the bytes of each number round: from the other order of bytes, or to it.
pub(super) fn swap_bytes(dtype: ScalarType, bytes: &mut [u8]) {
    // A complex number is two.
    bytes.chunks_exact_mut(dtype.to_real().element_size()).for_each(<[u8]>::reverse);
}
