//! The operator in use.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use aten::{ErrorKind, Result, Tensor};
use c10_core::{Device, ScalarType};
use custom_op::log_cosh;
use tensorplay_autograd::{
    GradOptions, GradcheckOptions, TensorAutograd, grad, grad_with, gradcheck, no_grad,
};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap()
}

#[test]
fn values_and_gradients_are_right() {
    let x = leaf(&[-1000.0, -1.5, 0.0, 0.25, 3.0]);
    let y = log_cosh(&x, 2.0).unwrap();
    for (x, y) in values(&x).iter().zip(values(&y)) {
        let expected =
            if x.abs() > 100.0 { 2.0 * x.abs() - 4.0 * 2.0_f64.ln() } else { 4.0 * (x / 2.0).cosh().ln() };
        assert!((y - expected).abs() < 1e-12, "{x}: {y}, {expected}");
    }
    let name = y.grad_fn().unwrap().unwrap().name().to_owned();
    assert_eq!(name, "GeneratedBackwardFor_examples_log_cosh_defaultBackward");
    y.sum().unwrap().backward().unwrap();
    for (x, slope) in values(&x).iter().zip(values(&x.grad().unwrap())) {
        assert!((slope - 2.0 * (x / 2.0).tanh()).abs() < 1e-12);
    }
}

#[test]
fn the_second_derivative_is_right() {
    let x = leaf(&[-1.5, 0.0, 3.0]);
    let y = log_cosh(&x, 2.0).unwrap().sum().unwrap();
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first = grad_with(&[y], std::slice::from_ref(&x), options).unwrap().remove(0).unwrap();
    let second = grad(&[first.sum().unwrap()], std::slice::from_ref(&x)).unwrap();
    for (x, curvature) in values(&x).iter().zip(values(&second[0])) {
        assert!((curvature - (1.0 - (x / 2.0).tanh().powi(2))).abs() < 1e-12);
    }
}

#[test]
fn it_is_what_differences_say() {
    let x = leaf(&[-1.5, 0.5, 3.0]);
    gradcheck(|inputs| Ok(vec![log_cosh(&inputs[0], 2.0)?]), &[x], GradcheckOptions::default()).unwrap();
}

#[test]
fn without_elements_it_gives_sizes_and_dtype() {
    custom_op::register().unwrap();
    let options = aten::TensorOptions::default().dtype(ScalarType::Float32).device(Device::META);
    let y = log_cosh(&Tensor::empty(&[3, 5], options).unwrap(), 1.0).unwrap();
    assert_eq!((&y.sizes()[..], y.dtype(), y.device()), (&[3, 5][..], ScalarType::Float32, Device::META));
}

#[test]
fn nothing_is_recorded_under_no_grad() {
    let x = leaf(&[1.0]);
    let y = no_grad(|| log_cosh(&x, 1.0)).unwrap();
    assert!(!y.requires_grad() && y.grad_fn().unwrap().is_none());
}

#[test]
fn bad_input_is_refused() {
    let x = leaf(&[1.0]);
    assert_eq!(log_cosh(&x, 0.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(log_cosh(&x, f64::NAN).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let integers = Tensor::from_elements(&[1_i64]).unwrap();
    assert_eq!(log_cosh(&integers, 1.0).unwrap_err().kind(), ErrorKind::Dtype);
}

/// The slope and offset of a line through points, by gradient descent.
fn fit(loss: impl Fn(&Tensor) -> Result<Tensor>) -> Result<(f64, f64)> {
    let x: Vec<f64> = (0..20).map(|at| f64::from(at) / 10.0 - 1.0).collect();
    // Two of the points are far off.
    let y: Vec<f64> =
        x.iter().enumerate().map(|(at, x)| 3.0 * x - 1.0 + if at % 10 == 9 { 40.0 } else { 0.0 }).collect();
    let (x, y) = (Tensor::from_elements(&x)?, Tensor::from_elements(&y)?);
    let (slope, offset) = (leaf(&[0.0]), leaf(&[0.0]));
    for _ in 0..500 {
        let error = x.mul(&slope)?.add(&offset)?.sub(&y)?;
        loss(&error)?.mean()?.backward()?;
        for parameter in [&slope, &offset] {
            let step = parameter.grad().unwrap().mul_scalar(-0.5)?;
            no_grad(|| parameter.add_(&step))?;
            parameter.set_grad(None)?;
        }
    }
    Ok((values(&slope)[0], values(&offset)[0]))
}

#[test]
fn a_line_is_fitted_in_spite_of_outliers() {
    let (slope, offset) = fit(|error| log_cosh(error, 0.1)?.mul_scalar(2.0)).unwrap();
    assert!((slope - 3.0).abs() < 0.1 && (offset + 1.0).abs() < 0.1, "{slope}, {offset}");
    let (_, offset) = fit(|error| error.mul(error)).unwrap();
    assert!(offset > 2.0, "{offset}");
}
