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

/// What an operator makes is not written again when its elements are copied there.
#[test]
fn copies_begin_at_version_zero() {
    let x = tensor![[1.0_f32, 2.0], [3.0, 4.0]].unwrap();
    let turned = x.t().unwrap();
    for made in [
        x.deep_clone(),
        turned.contiguous(),
        x.to(ScalarType::Float64),
        turned.reshape(&[4]),
        x.constant_pad_nd(&[1, 1]),
        x.diag_embed(),
        x.roll(&[1]),
    ] {
        assert_eq!(made.unwrap().version(), 0);
    }
    let out = Tensor::from_elements(&[0.0_f32; 4]).unwrap();
    out.view(&[2, 2]).unwrap().copy_(&turned).unwrap();
    assert_eq!((out.version(), out.to_vec::<f32>().unwrap()), (1, vec![1.0, 3.0, 2.0, 4.0]));
}
