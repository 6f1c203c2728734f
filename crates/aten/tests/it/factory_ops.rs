//! New tensors: how many elements, which values, on which device.

use aten::tensor::ArangeStartStepOptions;
use aten::{ErrorKind, Tensor, TensorOptions};
use c10_core::{Device, Scalar, ScalarType};

fn arange(
    start: impl Into<Scalar>,
    end: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: ScalarType,
) -> Tensor {
    Tensor::arange_start_step_with(start, end, ArangeStartStepOptions { step: step.into() }, dtype).unwrap()
}

#[test]
fn counts_are_those_of_the_numbers_given() {
    assert_eq!(arange(0.1, 0.5, 0.05, ScalarType::Float32).numel(), 8);
    assert_eq!(arange(-4, 4, 0.01, ScalarType::Float32).numel(), 800);
    assert_eq!(arange(0, 1.5, 1, ScalarType::Int64).to_vec::<i64>().unwrap(), [0, 1]);
    assert_eq!(arange(i64::MIN, i64::MAX, i64::MAX, ScalarType::Int64).numel(), 3);
    assert_eq!(arange(5, 0, -2, ScalarType::Int32).to_vec::<i32>().unwrap(), [5, 3, 1]);
    let too_many = Tensor::arange_start_step(0.0, 1e300, ScalarType::Float32).unwrap_err();
    assert_eq!(too_many.kind(), ErrorKind::Overflow);
}

#[test]
fn points_between_two_ends_are_exact_where_they_can_be() {
    let points = Tensor::linspace(0, 8198, 4100, ScalarType::Float32).unwrap().to_vec::<f32>().unwrap();
    assert_eq!((points[4095], points[4099], points.len()), (8190.0, 8198.0, 4100));
}

#[test]
fn what_is_new_has_version_zero() {
    let ones = Tensor::ones(&[2, 2], ScalarType::Float32).unwrap();
    let made = [
        ones.index_add(
            0,
            &Tensor::from_elements(&[0_i64]).unwrap(),
            &Tensor::ones(&[1, 2], ScalarType::Float32).unwrap(),
        ),
        Tensor::full(&[2], 3.5, TensorOptions::default()),
        Tensor::arange(3, TensorOptions::default()),
        Tensor::eye(3, TensorOptions::default()),
        Tensor::stack(&[ones.clone(), ones.clone()]),
    ];
    for tensor in made {
        assert_eq!(tensor.unwrap().version(), 0);
    }
}

#[test]
fn sizes_that_overflow_are_refused() {
    for sizes in [&[1 << 40, 1 << 40][..], &[2, 2, 1, 1 << 61], &[1 << 61]] {
        let error = Tensor::zeros(sizes, ScalarType::Float64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overflow, "{sizes:?}");
    }
    let negative = Tensor::zeros(&[-1], ScalarType::Float32).unwrap_err();
    assert_eq!(negative.kind(), ErrorKind::Shape);
}

#[test]
fn meta_tensors_have_shapes_alone() {
    let meta = TensorOptions::from((ScalarType::Float32, Device::META));
    let x = Tensor::zeros(&[1 << 20, 1 << 20], meta).unwrap();
    let index = Tensor::zeros(&[5], TensorOptions::from((ScalarType::Int64, Device::META))).unwrap();
    assert_eq!(x.index_select(1, &index).unwrap().sizes(), [1 << 20, 5]);
    assert_eq!(x.index(&[Some(index.clone())]).unwrap().sizes(), [5, 1 << 20]);
    assert_eq!(Tensor::cat(&[x.clone(), x.clone()]).unwrap().sizes(), [1 << 21, 1 << 20]);
    assert_eq!(x.topk(3).unwrap().0.sizes(), [1 << 20, 3]);
    let error = x.nonzero().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
}
