//! Products of matrices of odd strides, and masks on broadcast tensors.

use aten::ops::handles::CONVOLUTION;
use aten::{ErrorKind, Tensor};
use c10_core::ScalarType;

fn counted(sizes: &[i64]) -> Tensor {
    let numel: i64 = sizes.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| (i % 13) as f32 - 6.0).collect();
    Tensor::from_slice(&values, sizes).unwrap()
}

/// The row stride of a matrix of one row is free.
#[test]
fn one_row_with_any_stride() {
    let row = counted(&[1, 8, 2048]).select(1, 7).unwrap();
    assert_eq!((row.sizes(), row.strides()), ([1, 2048].into(), [16384, 1].into()));
    let other = counted(&[32, 2048]).t().unwrap();
    let product = row.matmul(&other).unwrap();
    let copied = row.deep_clone().unwrap().matmul(&other.contiguous().unwrap()).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap(), copied.to_vec::<f32>().unwrap());
}

/// A matrix of one element, repeated.
#[test]
fn matrices_of_stride_zero() {
    let zeros = Tensor::zeros(&[], ScalarType::Float32).unwrap().expand(&[3, 4]).unwrap();
    let product = zeros.matmul(&counted(&[4, 5])).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap(), [0.0; 15]);
    let twos = Tensor::full(&[1, 1], 2.0, ScalarType::Float32).unwrap().expand(&[2, 3]).unwrap();
    assert_eq!(twos.mm(&twos.t().unwrap()).unwrap().to_vec::<f32>().unwrap(), [12.0; 4]);
}

#[test]
fn a_mask_on_a_broadcast_tensor() {
    let base = counted(&[2, 2]);
    let wide = base.expand(&[2, 2, 2]).unwrap();
    let mask =
        Tensor::from_slice(&[true, false, false, false, false, false, false, true], &[2, 2, 2]).unwrap();
    assert_eq!(wide.masked_fill_scalar_(&mask, 9.0).unwrap_err().kind(), ErrorKind::Overlap);
    assert_eq!(base.to_vec::<f32>().unwrap(), counted(&[2, 2]).to_vec::<f32>().unwrap());
    let filled = wide.masked_fill_scalar(&mask, 9.0).unwrap();
    assert_eq!(filled.to_vec::<f32>().unwrap(), [9.0, -5.0, -4.0, -3.0, -6.0, -5.0, -4.0, 9.0]);
}

#[test]
fn products_name_what_does_not_fit() {
    let error = counted(&[2, 3]).mm(&counted(&[2, 3])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!(error.operator(), Some("aten::mm"));
    assert_eq!(error.tensors().map(|(sizes, _)| sizes.to_vec()).collect::<Vec<_>>(), [[2, 3], [2, 3]]);
}

/// The planes that a convolution pads have more elements than 64 bits count, or than there is memory for.
#[test]
fn images_beyond_the_address_space_are_refused() {
    let (image, weight) = (counted(&[1, 1, 1, 1, 1]), counted(&[1, 1, 3, 3, 3]));
    let dilation = [2_098_519, 2_097_302, 1_047_817];
    let call = |dilation: &[i64]| {
        CONVOLUTION.call(&image, &weight, None, &[1, 1, 1], dilation, dilation, false, &[0, 0, 0], 1)
    };
    assert_eq!(call(&dilation).unwrap_err().kind(), ErrorKind::Overflow);
    let (image, weight) = (counted(&[1, 1, 1]), counted(&[1, 1, 3]));
    let far = [1 << 43];
    let refused = CONVOLUTION.call(&image, &weight, None, &[1], &far, &far, false, &[0], 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
}

/// One element, as often as no memory holds it side by side.
#[test]
fn vectors_beyond_memory_are_refused() {
    let wide = counted(&[1]).expand(&[1 << 60]).unwrap();
    assert_eq!(wide.dot(&wide).unwrap_err().kind(), ErrorKind::OutOfMemory);
}
