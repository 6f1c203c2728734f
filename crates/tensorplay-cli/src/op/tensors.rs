//! Recorded tensors as tensors, and back.

use std::sync::Arc;

use aten::Tensor;
use c10_core::allocator::get_allocator;
use c10_core::{Device, ScalarType, Storage};

use super::tensor_value::TensorValue;

/// A tensor with the recorded storage, sizes, strides and offset, in memory of its own that can be resized,
/// or without any on the Meta device; `None` for one that was recorded without values, or of a type that
/// there is none of. Where it was the view of a conjugate or a negation it is one again: recorded are the elements
/// that it has, and the storage holds those that the view is of.
pub(super) fn tensor_of(recorded: &TensorValue, device: Device) -> Option<Tensor> {
    let TensorValue { dtype, sizes, strides, offset, data: Some(data), .. } = recorded else {
        return None;
    };
    let storage = Storage::new(data.len(), Arc::clone(get_allocator(device.device_type()).ok()?)).ok()?;
    if device.is_cpu() {
        let data = flipped(data.clone(), *dtype, recorded.is_conj, recorded.is_neg)?;
        storage.write().ok()?.bytes_mut().ok()?.copy_from_slice(&data);
    }
    let offset = i64::try_from(*offset).ok()?;
    let mut tensor = Tensor::from_storage(storage, *dtype, sizes, strides, offset).ok()?;
    if recorded.is_conj {
        tensor = tensor._conj().ok()?;
    }
    if recorded.is_neg {
        tensor = tensor._neg_view().ok()?;
    }
    Some(tensor)
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
        logical_bytes(tensor)?.get(begin..begin + bytes)?.to_vec()
    };
    Some(TensorValue {
        dtype: tensor.dtype(),
        sizes,
        strides,
        offset: 0,
        data: Some(data),
        is_conj: tensor.is_conj(),
        is_neg: tensor.is_neg(),
    })
}

/// The bytes of the tensor's storage, as its elements and those between them are read through the tensor.
pub(super) fn logical_bytes(tensor: &Tensor) -> Option<Vec<u8>> {
    flipped(storage_bytes(&tensor.storage())?, tensor.dtype(), tensor.is_conj(), tensor.is_neg())
}

/// Bytes of elements, conjugated and negated where that is asked for.
fn flipped(bytes: Vec<u8>, dtype: ScalarType, conj: bool, neg: bool) -> Option<Vec<u8>> {
    let numel = bytes.len() / dtype.element_size();
    if numel == 0 || !(conj || neg) {
        return Some(bytes);
    }
    let storage =
        Storage::new(bytes.len(), Arc::clone(get_allocator(Device::CPU.device_type()).ok()?)).ok()?;
    storage.write().ok()?.bytes_mut().ok()?.copy_from_slice(&bytes);
    let elements = Tensor::from_storage(storage.clone(), dtype, &[numel as i64], &[1], 0).ok()?;
    if conj {
        elements.conj_physical_().ok()?;
    }
    if neg {
        elements.neg_().ok()?;
    }
    storage_bytes(&storage)
}

/// A copy of the bytes of a storage.
fn storage_bytes(storage: &Storage) -> Option<Vec<u8>> {
    let guard = storage.read().ok()?;
    Some(guard.bytes().ok()?.to_vec())
}
