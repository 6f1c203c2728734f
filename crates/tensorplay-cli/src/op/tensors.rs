//! Recorded tensors as tensors, and back.

use std::sync::Arc;

use aten::Tensor;
use c10_core::allocator::get_allocator;
use c10_core::{Device, Storage};

use super::tensor_value::TensorValue;

/// A tensor with the recorded storage, sizes, strides and offset, in memory of its own that can be resized,
/// or without any on the Meta device; `None` for one that was recorded without values, or of a type that
/// there is none of.
pub(super) fn tensor_of(recorded: &TensorValue, device: Device) -> Option<Tensor> {
    let TensorValue { dtype, sizes, strides, offset, data: Some(data), .. } = recorded else {
        return None;
    };
    let storage = Storage::new(data.len(), Arc::clone(get_allocator(device.device_type()).ok()?)).ok()?;
    if device.is_cpu() {
        storage.write().ok()?.bytes_mut().ok()?.copy_from_slice(data);
    }
    let offset = i64::try_from(*offset).ok()?;
    Tensor::from_storage(storage, *dtype, sizes, strides, offset).ok()
}

/// The tensor as results are written: its data begin at its first element and end with its last. `None` when
/// its storage has become too small for it.
pub(super) fn value_of(tensor: &Tensor) -> Option<TensorValue> {
    let (sizes, strides) = (tensor.sizes().to_vec(), tensor.strides().to_vec());
    let element = tensor.dtype().element_size();
    let data = if sizes.contains(&0) {
        Vec::new()
    } else {
        let begin = tensor.storage_offset() as usize * element;
        let bytes = c10_core::bytes::strided_bytes(&sizes, &strides, element, 0).ok()?;
        storage_bytes(&tensor.storage())?.get(begin..begin + bytes)?.to_vec()
    };
    Some(TensorValue {
        dtype: tensor.dtype(),
        sizes,
        strides,
        offset: 0,
        data: Some(data),
        is_conj: false,
        is_neg: false,
    })
}

/// A copy of the bytes of a storage.
pub(super) fn storage_bytes(storage: &Storage) -> Option<Vec<u8>> {
    let guard = storage.read().ok()?;
    Some(guard.bytes().ok()?.to_vec())
}
