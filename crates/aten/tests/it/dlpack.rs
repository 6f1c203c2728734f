#![expect(unsafe_code, reason = "plays the other library, which hands structures over and takes them")]
//! Memory shared by DLPack, with another library on the other side of the border.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aten::io::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_READ_ONLY, ManagedTensor,
    VERSION,
};
use aten::{ErrorKind, Result, Tensor};
use c10_core::{Complex, ScalarType};
use proptest::prelude::*;

/// What another library keeps with an array that it has given away.
struct Theirs {
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    _data: Arc<Vec<f32>>,
    deleted: Arc<AtomicUsize>,
}

/// An array of another library, to be changed before it is given away.
struct Foreign {
    managed: DLManagedTensorVersioned,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `Foreign::new` boxed it, and the consumer deletes it once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let theirs = unsafe { Box::from_raw(managed.manager_ctx.cast::<Theirs>()) };
    theirs.deleted.fetch_add(1, Ordering::Relaxed);
}

impl Foreign {
    fn new(data: &Arc<Vec<f32>>, first: usize, shape: &[i64], strides: Option<&[i64]>) -> Self {
        let deleted = Arc::new(AtomicUsize::new(0));
        let mut theirs = Box::new(Theirs {
            shape: shape.to_vec(),
            strides: strides.map(<[i64]>::to_vec),
            _data: Arc::clone(data),
            deleted: Arc::clone(&deleted),
        });
        let dl_tensor = DLTensor {
            data: data.as_ptr().cast_mut().cast(),
            device: DLDevice { device_type: 1, device_id: 0 },
            ndim: shape.len() as i32,
            dtype: DLDataType::of(ScalarType::Float32).unwrap(),
            shape: theirs.shape.as_mut_ptr(),
            strides: theirs.strides.as_mut().map_or(ptr::null_mut(), |strides| strides.as_mut_ptr()),
            byte_offset: 4 * first as u64,
        };
        let manager_ctx = Box::into_raw(theirs).cast::<c_void>();
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(delete),
            flags: 0,
            dl_tensor,
        };
        Self { managed, deleted }
    }

    /// A tensor of it, and the count of deletions.
    fn import(self) -> (Result<Tensor>, Arc<AtomicUsize>) {
        let raw = NonNull::from(Box::leak(Box::new(self.managed)));
        // SAFETY: it is as DLPack has it but for what a test changes, in a way that must be noticed.
        let managed = unsafe { ManagedTensor::from_raw(raw) };
        (managed.into_tensor(), self.deleted)
    }
}

fn data(len: usize) -> Arc<Vec<f32>> {
    Arc::new((0..len).map(|n| n as f32).collect())
}

fn import(len: usize, first: usize, shape: &[i64], strides: Option<&[i64]>) -> Result<Tensor> {
    Foreign::new(&data(len), first, shape, strides).import().0
}

#[test]
fn an_array_is_borrowed_and_deleted_once_with_the_last_tensor() {
    let elements = data(6);
    let (tensor, deleted) = Foreign::new(&elements, 0, &[2, 3], None).import();
    let tensor = tensor.unwrap();
    assert_eq!((&*tensor.sizes(), &*tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!(tensor.storage().data_ptr(), elements.as_ptr().cast());
    assert!(!tensor.storage().is_resizable());
    let view = Tensor::from_storage(tensor.storage(), ScalarType::Float32, &[3], &[1], 3).unwrap();
    drop(tensor);
    assert_eq!(deleted.load(Ordering::Relaxed), 0);
    assert_eq!(view.to_vec::<f32>().unwrap(), [3.0, 4.0, 5.0]);
    std::thread::spawn(move || drop(view)).join().unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
    assert_eq!(Arc::strong_count(&elements), 1);
}

#[test]
fn strides_and_offsets_are_taken() {
    let tensor = import(12, 1, &[3, 2], Some(&[4, 2])).unwrap();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]);
    let expanded = import(1, 0, &[1000, 1000], Some(&[0, 0])).unwrap();
    assert_eq!(expanded.numel(), 1_000_000);
    assert_eq!(expanded.storage().nbytes(), 4);
    let number = import(1, 0, &[], None).unwrap();
    assert_eq!((number.rank(), number.to_vec::<f32>().unwrap()), (0, vec![0.0]));
}

#[test]
fn a_negative_stride_counts_only_where_there_are_several_elements() {
    let tensor = import(200, 0, &[1, 10, 20], Some(&[-1600, 20, 1])).unwrap();
    assert_eq!(*tensor.strides(), [200, 20, 1]);
    assert_eq!(import(1, 0, &[0, 4], Some(&[1, -1])).unwrap().numel(), 0);
    let error = import(16, 8, &[4], Some(&[-2])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.to_string().contains("stride"), "{error}");
}

#[test]
fn an_array_without_elements_needs_no_memory() {
    let mut foreign = Foreign::new(&data(1), 0, &[2, 0], Some(&[7, 3]));
    foreign.managed.dl_tensor.data = ptr::null_mut();
    let (tensor, deleted) = foreign.import();
    assert_eq!(*tensor.unwrap().sizes(), [2, 0]);
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
}

#[test]
fn misaligned_memory_is_copied() {
    let elements = data(4);
    let mut foreign = Foreign::new(&elements, 0, &[3], None);
    foreign.managed.dl_tensor.byte_offset = 2;
    let (tensor, deleted) = foreign.import();
    let tensor = tensor.unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
    let bytes: Vec<u8> = elements.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let shifted: Vec<f32> =
        bytes[2..14].chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), shifted);
}

#[test]
fn read_only_memory_is_not_written() {
    let mut foreign = Foreign::new(&data(2), 0, &[2], None);
    foreign.managed.flags = FLAG_READ_ONLY;
    let tensor = foreign.import().0.unwrap();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [0.0, 1.0]);
    assert!(tensor.storage().is_read_only());
    assert_eq!(tensor.storage().write().unwrap_err().kind(), c10_core::ErrorKind::ReadOnly);
    let exported = ManagedTensor::new(&tensor).unwrap();
    assert_eq!(exported.as_raw().flags & FLAG_READ_ONLY, FLAG_READ_ONLY);
    assert_eq!(ManagedTensor::without_version(&tensor).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn what_is_refused_is_deleted() {
    type Change = fn(&mut DLManagedTensorVersioned);
    let changes: [(Change, ErrorKind); 11] = [
        (|m| m.version = DLPackVersion { major: 2, minor: 0 }, ErrorKind::NotImplemented),
        (|m| m.version = DLPackVersion { major: 0, minor: 8 }, ErrorKind::NotImplemented),
        (|m| m.dl_tensor.dtype.lanes = 4, ErrorKind::Dtype),
        (|m| m.dl_tensor.dtype.bits = 24, ErrorKind::Dtype),
        (|m| m.dl_tensor.dtype.code = 3, ErrorKind::Dtype),
        (|m| m.dl_tensor.device.device_type = 7, ErrorKind::Device),
        (|m| m.dl_tensor.ndim = -1, ErrorKind::Shape),
        (|m| m.dl_tensor.shape = ptr::null_mut(), ErrorKind::Shape),
        (|m| m.dl_tensor.data = ptr::null_mut(), ErrorKind::InvalidArgument),
        (
            // SAFETY: there is one size.
            |m| unsafe { *m.dl_tensor.shape = -3 },
            ErrorKind::InvalidArgument,
        ),
        (
            // SAFETY: there is one size.
            |m| unsafe { *m.dl_tensor.shape = i64::MAX },
            ErrorKind::Overflow,
        ),
    ];
    for (index, (change, kind)) in changes.into_iter().enumerate() {
        let mut foreign = Foreign::new(&data(4), 0, &[4], None);
        change(&mut foreign.managed);
        let (refused, deleted) = foreign.import();
        assert_eq!(refused.unwrap_err().kind(), kind, "{index}");
        assert_eq!(deleted.load(Ordering::Relaxed), 1, "{index}");
    }
}

#[test]
fn a_structure_without_a_deleter_is_left() {
    let mut foreign = Foreign::new(&data(2), 0, &[2], None);
    let delete = foreign.managed.deleter.take().unwrap();
    let raw = NonNull::from(Box::leak(Box::new(foreign.managed)));
    // SAFETY: it is as DLPack has it.
    let tensor = unsafe { ManagedTensor::from_raw(raw) }.into_tensor().unwrap();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [0.0, 1.0]);
    drop(tensor);
    assert_eq!(foreign.deleted.load(Ordering::Relaxed), 0);
    // SAFETY: nobody else deletes it.
    unsafe { delete(raw.as_ptr()) };
}

#[test]
fn a_consumer_sees_the_tensor_and_deletes_it_once() {
    let tensor = Tensor::from_slice(&[1_i32, 2, 3, 4, 5, 6], &[6]).unwrap();
    let view = Tensor::from_storage(tensor.storage(), ScalarType::Int32, &[1, 2, 2], &[9, 3, 1], 1).unwrap();
    let handles = tensor.storage().use_count();
    let raw = ManagedTensor::new(&view).unwrap().into_raw();
    drop(view);
    // SAFETY: it is live until it is deleted below.
    let managed = unsafe { raw.as_ref() };
    assert_eq!((managed.version, managed.flags), (VERSION, 0));
    let array = &managed.dl_tensor;
    assert_eq!(array.device, DLDevice { device_type: 1, device_id: 0 });
    assert_eq!(array.dtype, DLDataType { code: 0, bits: 32, lanes: 1 });
    assert_eq!((array.ndim, array.byte_offset), (3, 0));
    // SAFETY: there are as many sizes as dimensions.
    assert_eq!(unsafe { std::slice::from_raw_parts(array.shape, 3) }, [1, 2, 2]);
    // SAFETY: and as many strides.
    assert_eq!(unsafe { std::slice::from_raw_parts(array.strides, 3) }, [1, 3, 1]);
    // SAFETY: the elements reach from the first to the fifth.
    assert_eq!(unsafe { std::slice::from_raw_parts(array.data.cast::<i32>(), 5) }, [2, 3, 4, 5, 6]);
    assert_eq!(tensor.storage().use_count(), handles);
    let delete = managed.deleter.unwrap();
    // SAFETY: it is deleted once.
    unsafe { delete(raw.as_ptr()) };
    assert_eq!(tensor.storage().use_count(), handles - 1);
}

#[test]
fn the_structure_without_a_version_is_given_and_taken() {
    let tensor = Tensor::from_elements(&[Complex::new(1.0_f64, 2.0)]).unwrap();
    let raw = ManagedTensor::without_version(&tensor).unwrap().into_raw();
    // SAFETY: it comes from this library, and the tensor below is the only one to be used meanwhile.
    let again = unsafe { ManagedTensor::from_raw(raw) }.into_tensor().unwrap();
    assert_eq!(again.to_vec::<Complex<f64>>().unwrap(), [Complex::new(1.0, 2.0)]);
    assert_eq!(again.storage().data_ptr(), tensor.storage().data_ptr());
}

#[test]
fn a_tensor_that_never_left_is_itself() {
    let tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let exported = ManagedTensor::new(&tensor).unwrap();
    // One storage has one access lock, whichever way it is reached.
    let again = exported.into_tensor().unwrap();
    assert!(again.is_alias_of(&tensor));
    assert_eq!(again.to_vec::<f32>().unwrap(), tensor.to_vec::<f32>().unwrap());
}

#[test]
fn meta_tensors_are_not_given_away() {
    let storage = c10_core::Storage::new(
        16,
        c10_core::allocator::get_allocator(c10_core::DeviceType::Meta).unwrap().clone(),
    )
    .unwrap();
    let tensor = Tensor::from_storage(storage, ScalarType::Float32, &[4], &[1], 0).unwrap();
    assert_eq!(ManagedTensor::new(&tensor).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn types_have_dlpack_names_and_back() {
    for dtype in ScalarType::ALL {
        let back = DLDataType::of(dtype).and_then(DLDataType::scalar_type);
        assert_eq!(back, (dtype != ScalarType::BComplex32).then_some(dtype));
    }
    assert_eq!(DLDataType::of(ScalarType::BFloat16), Some(DLDataType { code: 4, bits: 16, lanes: 1 }));
    assert_eq!(DLDataType::of(ScalarType::Bool), Some(DLDataType { code: 6, bits: 8, lanes: 1 }));
    assert_eq!(DLDataType::of(ScalarType::Complex128), Some(DLDataType { code: 5, bits: 128, lanes: 1 }));
}

proptest! {
    #[test]
    fn arrays_of_any_geometry_are_read_by_index(
        dims in prop::collection::vec((0_i64..4, 0_i64..4), 0..4),
        first in 0_usize..4,
    ) {
        let (shape, strides): (Vec<i64>, Vec<i64>) = dims.into_iter().unzip();
        let tensor = import(64, first, &shape, Some(&strides)).unwrap();
        let mut expected = vec![first as f32];
        for (&size, &stride) in shape.iter().zip(&strides) {
            expected = expected.iter().flat_map(|base| (0..size).map(move |n| base + (n * stride) as f32)).collect();
        }
        prop_assert_eq!(tensor.to_vec::<f32>().unwrap(), expected);
    }
}
