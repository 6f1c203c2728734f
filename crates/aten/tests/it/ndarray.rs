//! Arrays of the `ndarray` crate.

use aten::{ErrorKind, Tensor};
use c10_core::{Complex, ScalarType};
use ndarray::{Array, Array2, ArrayD, IxDyn, ShapeBuilder, arr0, arr2, s};
use proptest::prelude::*;

#[test]
fn arrays_become_tensors_in_row_major_order() {
    let array = arr2(&[[1_i64, 2, 3], [4, 5, 6]]);
    let check = |tensor: Tensor, sizes: &[i64], elements: &[i64]| {
        assert!(tensor.is_contiguous());
        assert_eq!((&*tensor.sizes(), tensor.to_vec::<i64>().unwrap().as_slice()), (sizes, elements));
    };
    check(Tensor::from_ndarray(&array).unwrap(), &[2, 3], &[1, 2, 3, 4, 5, 6]);
    check(Tensor::from_ndarray(&array.t()).unwrap(), &[3, 2], &[1, 4, 2, 5, 3, 6]);
    // ndarray has negative strides, and tensors have not.
    check(Tensor::from_ndarray(&array.slice(s![.., ..;-2])).unwrap(), &[2, 2], &[3, 1, 6, 4]);
    check(Tensor::from_ndarray(&arr0(7_i64)).unwrap(), &[], &[7]);
    let column = Array::from_shape_vec((2, 2).f(), vec![1_i64, 2, 3, 4]).unwrap();
    check(Tensor::from_ndarray(&column).unwrap(), &[2, 2], &[1, 3, 2, 4]);
    assert_eq!(*Tensor::from_ndarray(&Array2::<bool>::default((0, 3))).unwrap().sizes(), [0, 3]);
}

#[test]
fn tensors_become_arrays() {
    let base = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[6]).unwrap();
    let view = Tensor::from_storage(base.storage(), ScalarType::Float32, &[2, 2], &[1, 3], 1).unwrap();
    assert_eq!(view.to_ndarray::<f32>().unwrap(), arr2(&[[2.0, 5.0], [3.0, 6.0]]).into_dyn());
    assert_eq!(view.to_ndarray::<f64>().unwrap_err().kind(), ErrorKind::Dtype);
    let complex = Tensor::from_slice(&[Complex::new(1.0_f64, 2.0)], &[]).unwrap();
    assert_eq!(complex.to_ndarray::<Complex<f64>>().unwrap()[IxDyn(&[])], Complex::new(1.0, 2.0));
    let empty = Tensor::from_slice::<u8>(&[], &[3, 4, 0]).unwrap();
    assert_eq!(empty.to_ndarray::<u8>().unwrap().shape(), [3, 4, 0]);
}

proptest! {
    #[test]
    fn arrays_come_back(sizes in prop::collection::vec(0_usize..4, 0..5)) {
        let numel: usize = sizes.iter().product();
        let array = ArrayD::from_shape_vec(IxDyn(&sizes), (0..numel as i32).collect()).unwrap();
        prop_assert_eq!(Tensor::from_ndarray(&array).unwrap().to_ndarray::<i32>().unwrap(), array);
    }
}
