//! Tensors of Rust values.

use aten::{ErrorKind, Tensor, tensor};
use c10_core::ScalarType;

#[test]
fn literals_of_any_depth() {
    let matrix = tensor![[1_i64, 2, 3], [4, 5, 6]].unwrap();
    assert_eq!((matrix.sizes(), matrix.dtype()), ([2, 3].into(), ScalarType::Int64));
    assert_eq!(matrix.to_vec::<i64>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(tensor![1.0_f32, 2.0].unwrap().sizes(), [2]);
    assert_eq!(tensor!([true, false, true]).unwrap().sizes(), [3]);
    assert_eq!(tensor!(7_i32).unwrap().rank(), 0);
    assert_eq!(Tensor::from_nested(&vec![vec![[1_u8, 2]; 3]; 4]).unwrap().sizes(), [4, 3, 2]);
    assert_eq!(Tensor::from_nested::<[f64; 0]>(&[]).unwrap().sizes(), [0]);
}

#[test]
fn ragged_rows_are_refused() {
    let ragged = Tensor::from_nested(&vec![vec![1, 2], vec![3]]).unwrap_err();
    assert_eq!(ragged.kind(), ErrorKind::Shape);
    assert_eq!(Tensor::from_slice(&[1.0], &[2]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(Tensor::from_slice::<f32>(&[], &[i64::MAX, 2]).unwrap_err().kind(), ErrorKind::Overflow);
}
