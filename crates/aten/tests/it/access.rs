//! Access to elements for kernels of others: `Access::acquire`, its slices and cells, and the guards of one
//! tensor.

use std::sync::mpsc;
use std::thread;

use aten::tensor::Access;
use aten::{Error, ErrorKind, Tensor};
use c10_core::storage::{AccessOptions, StorageOptions};
use c10_core::{DataPtr, Device, ScalarType, Storage};
use proptest::prelude::*;

fn tensor(elements: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(elements, sizes).unwrap()
}

/// Another tensor on the storage of one, as any view is.
fn view(of: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Tensor {
    Tensor::from_storage(of.storage(), of.dtype(), sizes, strides, offset).unwrap()
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

#[test]
fn slices_of_several_operands() {
    let (a, b, out) = (tensor(&[1., 2.], &[2]), tensor(&[3., 4.], &[2]), tensor(&[0.; 4], &[4]));
    let out = view(&out, &[2], &[1], 1);
    let version = out.version();
    let mut set = Access::acquire(&[&a, &b], &[&out]).unwrap();
    assert_eq!(set.read_slice::<f32>(1).unwrap(), [3., 4.]);
    {
        let ([a, b], [out]) = set.slices::<f32, 2, 1>().unwrap();
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a * b);
    }
    assert_eq!(set.write_slice::<f32>(0).unwrap(), [3., 8.]);
    assert_eq!(set.read_ptr(0).unwrap(), a.storage().data_ptr());
    assert_eq!(set.write_ptr(0).unwrap().addr(), out.storage().data_ptr().addr() + 4);
    for refused in [set.read_slice::<f32>(2).map(drop), set.read_cells::<f32>(2).map(drop)] {
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
    for refused in [set.write_slice::<f32>(1).map(drop), set.write_ptr(1).map(drop)] {
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(set.write_cells::<f32>(1)), ErrorKind::InvalidArgument);
    assert_eq!(kind(set.slices::<f32, 1, 1>().map(drop)), ErrorKind::InvalidArgument);
    drop(set);
    assert_eq!(out.version(), version + 1);
    assert_eq!(out.to_vec::<f32>().unwrap(), [3., 8.]);
}

#[test]
fn what_is_no_slice_is_refused() {
    let matrix = tensor(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
    let transposed = view(&matrix, &[3, 2], &[1, 3], 0);
    assert_eq!(kind(transposed.as_slice::<f32>()), ErrorKind::InvalidArgument);
    assert_eq!(kind(transposed.as_mut_slice::<f32>()), ErrorKind::InvalidArgument);
    assert_eq!(kind(matrix.as_slice::<f64>()), ErrorKind::Dtype);
    assert_eq!(kind(matrix.as_slice::<i32>()), ErrorKind::Dtype);
    // Not aligned: a slice of bytes in the middle of others.
    let bytes: Box<[u8]> = vec![0; 9].into();
    let start = bytes.as_ptr().addr();
    let storage = Storage::from_bytes(bytes).unwrap();
    let odd = Tensor::from_storage(storage, ScalarType::UInt8, &[8], &[1], 1).unwrap();
    assert_eq!(odd.as_slice::<u8>().unwrap().len(), 8);
    assert!(start.is_multiple_of(4), "a misaligned case is made by hand below");
    let meta = Tensor::empty(&[2], (ScalarType::Float32, Device::META)).unwrap();
    assert_eq!(kind(meta.as_slice::<f32>()), ErrorKind::NotImplemented);
    assert_eq!(kind(meta.as_mut_slice::<f32>()), ErrorKind::NotImplemented);
    let set = Access::acquire(&[&meta], &[]).unwrap();
    assert_eq!(kind(set.read_cells::<f32>(0)), ErrorKind::NotImplemented);
}

#[test]
#[expect(unsafe_code, reason = "makes a storage at an odd address")]
fn misaligned_elements_are_cells_and_no_slice() {
    let memory: &'static mut [u8] = Box::leak(vec![0_u8; 32].into_boxed_slice());
    let odd = memory.as_mut_ptr().wrapping_add(1);
    // SAFETY: the bytes are leaked, initialised and nobody else's.
    let data = unsafe { DataPtr::borrowed(odd, Device::CPU) };
    // SAFETY: as above.
    let storage = unsafe { Storage::from_data_ptr(data, 16, StorageOptions::default()) }.unwrap();
    let tensor = Tensor::from_storage(storage, ScalarType::Int32, &[2, 2], &[2, 1], 0).unwrap();
    assert_eq!(kind(tensor.as_slice::<i32>()), ErrorKind::InvalidArgument);
    let set = Access::acquire(&[], &[&tensor]).unwrap();
    let cells = set.write_cells::<i32>(0).unwrap();
    cells.write([1, -2, 3]);
    cells.set(&[1, 1], 4).unwrap();
    assert_eq!(cells.iter().collect::<Vec<_>>(), [1, -2, 3, 4]);
    drop(set);
    assert_eq!(tensor.add_scalar(1).unwrap().to_vec::<i32>().unwrap(), [2, -1, 4, 5]);
}

#[test]
fn bools_are_checked() {
    let good = Tensor::from_elements(&[true, false]).unwrap();
    assert_eq!(*good.as_slice::<bool>().unwrap(), [true, false]);
    assert_eq!(*good.as_slice::<u8>().unwrap(), [1, 0]);
    let storage = Storage::from_bytes(Box::from([0_u8, 1, 7])).unwrap();
    let odd = Tensor::from_storage(storage, ScalarType::Bool, &[3], &[1], 0).unwrap();
    assert_eq!(kind(odd.as_slice::<bool>()), ErrorKind::InvalidArgument);
    assert_eq!(kind(odd.as_mut_slice::<bool>()), ErrorKind::InvalidArgument);
    let set = Access::acquire(&[&odd], &[]).unwrap();
    assert_eq!(set.read_cells::<bool>(0).unwrap().iter().collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn operands_that_alias_are_cells() {
    let base = tensor(&[1., 2., 3., 4.], &[4]);
    let (front, back) = (view(&base, &[3], &[1], 0), view(&base, &[3], &[1], 1));
    let mut set = Access::acquire(&[&front], &[&back]).unwrap();
    for refused in [set.read_slice::<f32>(0).map(drop), set.slices::<f32, 1, 1>().map(drop)] {
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(set.write_slice::<f32>(0)), ErrorKind::InvalidArgument);
    {
        // Each element is seen as soon as it is written.
        let (read, written) = (set.read_cells::<f32>(0).unwrap(), set.write_cells::<f32>(0).unwrap());
        for i in 0..3 {
            written.set(&[i], read.get(&[i]).unwrap() * 2.).unwrap();
        }
        assert_eq!(kind(written.set(&[3], 0.)), ErrorKind::Index);
        assert_eq!((read.get(&[-1]), read.get(&[0, 0]), read.get(&[])), (None, None, None));
    }
    drop(set);
    assert_eq!(base.to_vec::<f32>().unwrap(), [1., 2., 4., 8.]);
    // One element, many times.
    let expanded = view(&base, &[2, 2], &[0, 0], 3);
    let set = Access::acquire(&[], &[&expanded, &base]).unwrap();
    set.write_cells::<f32>(0).unwrap().update(|x| x + 1.);
    assert_eq!(set.write_cells::<f32>(1).unwrap().get(&[3]), Some(12.));
}

#[test]
fn a_thread_with_access_only_tries_and_others_wait() {
    let (a, b) = (tensor(&[1.], &[1]), tensor(&[2.], &[1]));
    let guard = a.as_slice::<f32>().unwrap();
    // Readers share; a writer would wait for ever, and is told so.
    assert_eq!(*a.as_slice::<f32>().unwrap(), [1.]);
    assert_eq!(kind(a.as_mut_slice::<f32>()), ErrorKind::Busy);
    assert_eq!(kind(a.add_(&b)), ErrorKind::Busy);
    assert_eq!(a.add(&b).unwrap().to_vec::<f32>().unwrap(), [3.]);
    let (sent, done) = mpsc::channel();
    thread::scope(|scope| {
        let a = &a;
        scope.spawn(move || {
            a.as_mut_slice::<f32>().unwrap()[0] = 5.;
            sent.send(()).unwrap();
        });
        assert!(done.try_recv().is_err());
        drop(guard);
        done.recv().unwrap();
    });
    assert_eq!(*a.as_slice::<f32>().unwrap(), [5.]);
}

#[test]
fn threads_add_under_exclusive_access_and_lose_nothing() {
    let counter = Tensor::from_elements(&[0_i64; 8]).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    counter.as_mut_slice::<i64>().unwrap().iter_mut().for_each(|x| *x += 1);
                }
            });
        }
    });
    assert_eq!(counter.to_vec::<i64>().unwrap(), [1000; 8]);
    assert_eq!(counter.version(), 1000);
}

#[test]
fn the_set_keeps_what_it_locks() {
    let (a, out) = (tensor(&[1., 2.], &[2]), tensor(&[0., 0.], &[2]));
    let mut set = Access::acquire(&[&a], &[&out]).unwrap();
    let weak = a.storage().downgrade();
    drop(a);
    let ([a], [out]) = set.slices::<f32, 1, 1>().unwrap();
    out.copy_from_slice(a);
    drop(set);
    assert!(weak.expired());
}

#[test]
fn for_a_device_there_are_addresses_alone() {
    let a = tensor(&[1., 2.], &[2]);
    let options = AccessOptions { host: false, ..AccessOptions::default() };
    let set = Access::acquire_with(&[&a], &[], options).unwrap();
    assert_eq!(kind(set.read_slice::<f32>(0).map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(kind(set.read_cells::<f32>(0)), ErrorKind::InvalidArgument);
    assert_eq!(set.read_ptr(0).unwrap(), a.storage().data_ptr());
}

proptest! {
    /// Cells against the indices of a plain list.
    #[test]
    fn cells_are_at_their_strides(
        dims in prop::collection::vec((0_i64..4, 0_i64..5), 0..4),
        offset in 0_i64..3,
    ) {
        let base: Vec<i32> = (0..64).collect();
        let (sizes, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        let view = Tensor::from_storage(
            Tensor::from_elements(&base).unwrap().storage(), ScalarType::Int32, &sizes, &strides, offset,
        ).unwrap();
        let set = Access::acquire(&[&view], &[]).unwrap();
        let cells = set.read_cells::<i32>(0).unwrap();
        let mut expected = vec![offset];
        for (size, stride) in sizes.iter().zip(&strides) {
            expected = expected.iter().flat_map(|at| (0..*size).map(move |i| at + i * stride)).collect();
        }
        let found: Vec<i64> = cells.iter().map(i64::from).collect();
        prop_assert_eq!(&found, &expected);
        if let Some(last) = expected.last() {
            let index: Vec<i64> = sizes.iter().map(|size| size - 1).collect();
            prop_assert_eq!(cells.get(&index).map(i64::from), Some(*last));
        }
    }
}
