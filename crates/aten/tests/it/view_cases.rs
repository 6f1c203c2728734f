//! Small inputs on views, strides, resizing and overlap that broke PyTorch or a peer.

use std::sync::Arc;

use aten::tensor::{AsStridedOptions, ContiguousOptions};
use aten::{ErrorKind, Tensor};
use c10_core::allocator::{Allocator, CpuAllocator, LimitAllocator};
use c10_core::{MemoryFormat, Scalar, ScalarType, Storage};

fn numbered(sizes: &[i64]) -> Tensor {
    let count: i64 = sizes.iter().product();
    Tensor::from_slice(&(0..count).map(|i| i as f32).collect::<Vec<f32>>(), sizes).unwrap()
}

fn strided(x: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor, aten::Error> {
    x.as_strided_with(sizes, strides, AsStridedOptions { storage_offset: Some(offset) })
}

fn channels_last(sizes: &[i64]) -> Tensor {
    let x = numbered(sizes);
    x.contiguous_with(ContiguousOptions { memory_format: MemoryFormat::ChannelsLast }).unwrap()
}

fn elements(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

/// 37, 38, 41: what cannot grow does not, and nothing of it has changed.
#[test]
fn a_resize_is_whole_or_not_at_all() {
    let limit: Arc<dyn Allocator> = Arc::new(LimitAllocator::new(Arc::new(CpuAllocator), 64));
    let storage = Storage::new(24, limit).unwrap();
    let x = Tensor::from_storage(storage, ScalarType::Int64, &[3], &[1], 0).unwrap();
    let error = x.resize_(&[5, 5, 5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!((x.sizes(), x.strides(), x.storage().nbytes()), (vec![3].into(), vec![1].into(), 24));
    assert_eq!(x.resize_(&[1 << 62, 4]).unwrap_err().kind(), ErrorKind::Overflow);
    assert!(x.resize_(&[-1]).is_err());
    assert_eq!(x.sizes(), [3]);

    let repeated = strided(&numbered(&[5]), &[5], &[0], 0).unwrap();
    repeated.resize_(&[1000]).unwrap();
    assert!(repeated.storage().nbytes() >= 4000);
    repeated.select(0, 999).unwrap().copy_(&numbered(&[])).unwrap();
}

/// A storage grows, keeps what it had, and never shrinks; sizes that stay keep their strides.
#[test]
fn resizing_keeps_elements() {
    let x = numbered(&[2, 3]);
    x.resize_(&[7]).unwrap();
    assert_eq!(elements(&x)[..6], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    x.resize_(&[2]).unwrap();
    assert_eq!((elements(&x), x.storage().nbytes()), (vec![0.0, 1.0], 28));
    let t = numbered(&[2, 3]).t().unwrap();
    t.resize_(&[3, 2]).unwrap();
    assert_eq!(t.strides(), [1, 3]);
    t.resize_(&[2, 3]).unwrap();
    assert_eq!(t.strides(), [3, 1]);
}

/// 40, 43: places beyond the storage and negative strides are refused.
#[test]
fn strides_do_not_leave_the_storage() {
    let x = numbered(&[8]);
    assert_eq!(strided(&x, &[2], &[8], 0).unwrap_err().kind(), ErrorKind::Shape);
    assert!(strided(&x, &[2], &[7], 0).is_ok());
    let error = strided(&x, &[4], &[-2], 7).unwrap_err();
    assert!(error.to_string().contains("Negative strides"), "{error}");
    assert!(strided(&x, &[0], &[1], 100).is_ok());
}

/// 46, 47: counts of elements and bytes do not wrap.
#[test]
fn counts_do_not_overflow() {
    let one = numbered(&[1]);
    assert!(one.expand(&[2, 2, 1, 1 << 61]).is_err());
    assert_eq!(one.expand(&[1 << 32, 1 << 32]).unwrap_err().kind(), ErrorKind::Overflow);
    assert!(one.expand(&[1 << 62]).unwrap().deep_clone().is_err());
    let none = numbered(&[0]);
    assert!(
        none.view(&[1 << 32, 1 << 32, 0]).is_err() || none.view(&[1 << 32, 1 << 32, 0]).unwrap().numel() == 0
    );
}

/// 50, 52, 53, 55: elements that are written are all different ones.
#[test]
fn overlapping_writes_are_refused() {
    let repeated = numbered(&[1]).expand(&[10]).unwrap();
    assert_eq!(repeated.copy_(&numbered(&[10])).unwrap_err().kind(), ErrorKind::Overlap);
    let a = numbered(&[2, 2]);
    assert_eq!(a.add_(&a.t().unwrap()).unwrap_err().kind(), ErrorKind::Overlap);
    assert_eq!(a.copy_(&a.t().unwrap()).unwrap_err().kind(), ErrorKind::Overlap);
    assert_eq!(elements(&a), [0.0, 1.0, 2.0, 3.0]);
    let harmless = strided(&numbered(&[6]), &[2, 1, 3], &[3, 0, 1], 0).unwrap();
    harmless.copy_(&numbered(&[])).unwrap();
    assert_eq!(elements(&harmless), [0.0; 6]);
}

/// 56: a walk over a view of one element reads only that.
#[test]
fn a_view_of_one_element_is_printed() {
    let x = strided(&numbered(&[4]), &[4, 4], &[0, 0], 0).unwrap();
    assert_eq!(elements(&x), [0.0; 16]);
    assert!(x.to_string().starts_with("tensor([[0., 0., 0., 0.],"));
}

/// 61, 62, 64, 65: strides of dimensions of size 1.
#[test]
fn free_strides_are_kept() {
    let x = channels_last(&[1, 2, 3, 4]);
    assert_eq!(x.strides(), [24, 1, 8, 2]);
    assert_eq!(x.reshape(&[1, 2, 3, 4]).unwrap().strides(), [24, 1, 8, 2]);
    assert_eq!(channels_last(&[1, 3, 4, 5]).view(&[1, 3, 20]).unwrap().strides(), [60, 1, 3]);

    let ambiguous = numbered(&[5, 1, 1, 1]);
    assert!(ambiguous.is_contiguous() && ambiguous.is_contiguous_in(MemoryFormat::ChannelsLast));
    assert_eq!(ambiguous.suggest_memory_format(), MemoryFormat::Contiguous);

    let row = numbered(&[1, 10]);
    assert_eq!(row.unsqueeze(1).unwrap().strides(), [10, 10, 1]);
    assert_eq!(row.expand(&[1, 1, 1, 10]).unwrap().strides(), [10, 10, 10, 1]);
}

/// 68: a shift in place reads before it writes.
#[test]
fn a_shift_in_place_is_that_of_a_copy() {
    let x = numbered(&[6]);
    let (from, to) = (x.i(..5).unwrap(), x.i(1..).unwrap());
    match to.copy_(&from) {
        Ok(_) => assert_eq!(elements(&x), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Overlap),
    }
}

/// The version is that of the storage, and counts changes of geometry in place, too.
#[test]
fn views_share_their_version() {
    let x = numbered(&[2, 3]);
    let view = x.detach().unwrap().t().unwrap();
    let before = x.version();
    view.copy_(&numbered(&[])).unwrap();
    assert_eq!((x.version(), view.version()), (before + 1, before + 1));
    x.transpose_(0, 1).unwrap().unsqueeze_(0).unwrap().squeeze_().unwrap();
    assert_eq!(x.version(), before + 4);
    assert_eq!((x.sizes(), x.strides()), (vec![3, 2].into(), vec![1, 3].into()));
    assert_eq!(view.sizes(), [3, 2]);
}

#[test]
fn set_takes_another_storage() {
    let (x, y) = (numbered(&[2]), numbered(&[3, 4]));
    x.set_source_tensor_(&y.select(0, 1).unwrap()).unwrap();
    assert!(x.is_alias_of(&y) && elements(&x) == [4.0, 5.0, 6.0, 7.0]);
    x.set_source_tensor_offset_(&y, 2, &[2, 2]).unwrap();
    assert_eq!(elements(&x), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(x.set_source_tensor_offset_(&y, 2, &[11]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(x.set_source_tensor_(&y.to(ScalarType::Int32).unwrap()).unwrap_err().kind(), ErrorKind::Dtype);
    x.set_().unwrap();
    assert_eq!((x.sizes(), x.is_alias_of(&y)), (vec![0].into(), false));
}

/// A view whose storage was shrunk by another is an error to read, and not what lies beyond.
#[test]
fn a_storage_that_shrank_is_not_read() {
    let x = numbered(&[4]);
    x.storage().resize(8).unwrap();
    assert!(x.to_vec::<f32>().is_err() && x.deep_clone().is_err() && x.select(0, 3).is_err());
    assert!(x.to_string().starts_with("tensor(<"));
    assert_eq!(x.select(0, 1).unwrap().item().unwrap(), Scalar::from(1.0));
}

#[test]
fn to_returns_the_tensor_itself_where_it_can() {
    let x = numbered(&[2, 3]).t().unwrap();
    assert!(x.to(ScalarType::Float32).unwrap().is_same(&x));
    assert!(x.contiguous().unwrap().is_contiguous() && !x.contiguous().unwrap().is_alias_of(&x));
    let double = x.to(ScalarType::Float64).unwrap();
    assert_eq!(
        (double.strides(), double.to_vec::<f64>().unwrap()),
        (vec![1, 3].into(), vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
    );
}
