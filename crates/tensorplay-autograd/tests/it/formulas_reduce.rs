//! Derivatives of reductions, scans and norms.

use aten::ops::handles;
use aten::{Result, Tensor, tensor};
use c10_core::Scalar;
use tensorplay_autograd::{GradOptions, TensorAutograd, grad, grad_with};

use crate::numeric::{check, check_one, complex, numbers};

fn leaf(values: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap().requires_grad_(true).unwrap()
}

/// The gradient of the sum of what `f` makes.
fn gradient(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f64> {
    let made = grad(&[f(x).unwrap().sum().unwrap()], std::slice::from_ref(x)).unwrap();
    made[0].reshape(&[-1]).unwrap().to_vec::<f64>().unwrap()
}

fn hessian(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<Vec<f64>> {
    let inputs = std::slice::from_ref(x);
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let first = grad_with(&[f(x).unwrap()], inputs, options).unwrap()[0].clone().unwrap();
    let keep = GradOptions { retain_graph: Some(true), materialize_grads: true, ..GradOptions::default() };
    let row = |at| {
        let row = grad_with(&[first.select(0, at).unwrap()], inputs, keep).unwrap();
        row[0].as_ref().expect("zeros are made").to_vec::<f64>().unwrap()
    };
    (0..x.numel()).map(row).collect()
}

/// Case 79.
#[test]
fn products_with_zeros() {
    assert_eq!(gradient(&leaf(&[2.0, 3.0, 0.0], &[3]), Tensor::prod), [0.0, 0.0, 6.0]);
    assert_eq!(gradient(&leaf(&[0.0], &[1]), Tensor::prod), [1.0]);
    assert_eq!(gradient(&leaf(&[0.0], &[]), Tensor::prod), [1.0]);
    assert_eq!(gradient(&leaf(&[2.0, 0.0, 0.0], &[3]), Tensor::prod), [0.0; 3]);
    let rows = leaf(&[2.0, 0.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(gradient(&rows, |x| handles::PROD_DIM_INT.call(x, -1, false, None)), [0.0, 2.0, 4.0, 3.0]);
    assert_eq!(gradient(&leaf(&[2.0, 0.0, 3.0, 0.0], &[4]), |x| x.cumprod(0)), [1.0, 8.0, 0.0, 0.0]);
}

/// Case 80.
#[test]
fn a_product_with_two_zeros_has_a_second_derivative() {
    let made = hessian(&leaf(&[2.0, 3.0, 0.0, 0.0], &[4]), Tensor::prod);
    let mut expected = vec![vec![0.0; 4]; 4];
    (expected[2][3], expected[3][2]) = (6.0, 6.0);
    assert_eq!(made, expected);
    let zeros = tensor![2.0_f64, 0.0, 3.0, 0.0].unwrap();
    check_one("cumprod", std::slice::from_ref(&zeros), |x| x[0].cumprod(0));
    check_one("prod", &[zeros.reshape(&[2, 2]).unwrap()], |x| {
        handles::PROD_DIM_INT.call(&x[0], 1, true, None)
    });
    check_one("cumprod of complex numbers", &[numbers(&[3, 2], 1)], |x| complex(&x[0])?.cumprod(0));
}

/// Case 82.
#[test]
fn the_greatest_sizes_share_the_gradient_of_their_norm() {
    let x = leaf(&[9.0, 2.0, 9.0, -2.0, -3.0, -4.0, 7.0, 8.0, -9.0], &[3, 3]);
    let norm = |x: &Tensor| handles::LINALG_VECTOR_NORM.call(x, f64::INFINITY.into(), None, false, None);
    let third = 1.0 / 3.0;
    assert_eq!(gradient(&x, norm), [third, 0.0, third, 0.0, 0.0, 0.0, 0.0, 0.0, -third]);
    for ord in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
        let zeros = leaf(&[0.0, 0.0], &[2]);
        let made = gradient(&zeros, |x| handles::LINALG_VECTOR_NORM.call(x, ord.into(), None, false, None));
        assert_eq!(made, [0.0, 0.0], "order {ord}");
    }
}

/// Case 83.
#[test]
fn logsumexp_of_nothing() {
    let none = f64::NEG_INFINITY;
    assert_eq!(gradient(&leaf(&[none, none], &[2]), |x| x.logsumexp(&[0])), [0.0, 0.0]);
    assert_eq!(gradient(&leaf(&[none, 1.0], &[2]), |x| x.logsumexp(&[0])), [0.0, 1.0]);
    let scan = |x: &Tensor| handles::LOGCUMSUMEXP.call(x, 0)?.select(0, 2);
    assert_eq!(gradient(&leaf(&[none, none, 1.0], &[3]), scan), [0.0, 0.0, 1.0]);
}

#[test]
fn extrema_that_are_the_same_share_the_gradient() {
    let x = leaf(&[1.0, 3.0, 3.0, 2.0, 2.0, 2.0], &[2, 3]);
    assert_eq!(
        gradient(&x, |x| handles::AMAX.call(x, &[1], false)),
        [0.0, 0.5, 0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]
    );
    assert_eq!(gradient(&x, Tensor::max), [0.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
    assert_eq!(gradient(&x, Tensor::min), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let both = |x: &Tensor| {
        let (min, max) = handles::AMINMAX.call(x, Some(1), true)?;
        max.sub(&min)
    };
    assert_eq!(gradient(&x, both), [-1.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn those_with_an_index_hand_the_gradient_to_it() {
    let x = leaf(&[1.0, 4.0, 3.0, 6.0, 5.0, 2.0], &[2, 3]);
    assert_eq!(gradient(&x, |x| Ok(handles::MAX_DIM.call(x, -1, false)?.0)), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradient(&x, |x| Ok(handles::MEDIAN_DIM.call(x, 1, true)?.0)), [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(
        gradient(&x, |x| Ok(handles::KTHVALUE.call(x, 1, 0, false)?.0)),
        [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    );
    assert_eq!(gradient(&x, |x| Ok(handles::CUMMAX.call(x, 1)?.0)), [1.0, 2.0, 0.0, 3.0, 0.0, 0.0]);
    assert_eq!(gradient(&leaf(&[2.0], &[]), |x| Ok(handles::MAX_DIM.call(x, 0, false)?.0)), [1.0]);
}

#[test]
fn what_is_not_a_number_is_left_out() {
    let x = leaf(&[1.0, f64::NAN, 3.0], &[3]);
    assert_eq!(gradient(&x, |x| handles::NANSUM.call(x, None, false, None)), [1.0, 0.0, 1.0]);
    assert_eq!(gradient(&x, |x| handles::NANMEAN.call(x, None, false, None)), [0.5, 0.0, 0.5]);
}

#[test]
fn reductions_and_scans_have_second_derivatives() {
    type One = (&'static str, fn(&Tensor) -> Result<Tensor>);
    let all: &[One] = &[
        ("sum", |x| handles::SUM_DIM_INTLIST.call(x, Some(&[0, -1]), false, None)),
        ("mean", |x| handles::MEAN_DIM.call(x, Some(&[-2]), true, None)),
        ("prod", Tensor::prod),
        ("cumsum", |x| x.cumsum(-1)),
        ("cumprod", |x| x.cumprod(1)),
        ("logcumsumexp", |x| handles::LOGCUMSUMEXP.call(x, 1)),
        ("logsumexp", |x| x.logsumexp(&[0, 2])),
        ("amax", |x| handles::AMAX.call(x, &[-1], false)),
        ("renorm", |x| handles::RENORM.call(x, 2.into(), 0, 1.5.into())),
    ];
    for (name, f) in all {
        check_one(name, &[numbers(&[2, 3, 2], 2)], |x| f(&x[0]));
    }
    for correction in [0.0, 1.0, 1.5] {
        let correction = Some(Scalar::Double(correction));
        for dims in [None, Some(&[0_i64, -1][..]), Some(&[1][..])] {
            check_one("var", &[numbers(&[2, 3, 2], 3)], |x| {
                handles::VAR_CORRECTION.call(&x[0], dims, correction, false)
            });
            check("std_mean", &[numbers(&[2, 3, 2], 4)], |x| {
                let (std, mean) = handles::STD_MEAN_CORRECTION.call(&x[0], dims, correction, true)?;
                Ok(vec![std, mean])
            });
        }
    }
    for ord in [1.0, 1.5, 2.0, 3.0, -1.0, f64::INFINITY] {
        check_one(&format!("{ord}-norm"), &[numbers(&[2, 3], 5)], |x| {
            handles::LINALG_VECTOR_NORM.call(&x[0], ord.into(), Some(&[1]), false, None)
        });
        check_one(&format!("{ord}-norm of complex numbers"), &[numbers(&[4, 2], 6)], |x| {
            handles::LINALG_VECTOR_NORM.call(&complex(&x[0])?, ord.into(), None, false, None)
        });
    }
}
