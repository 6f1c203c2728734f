//! Leaves, results and their gradients.

use aten::{Tensor, tensor};
use tensorplay_autograd::TensorAutograd;

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

#[test]
fn a_product_has_the_gradients_of_both_factors() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let z = x.mul(&y).unwrap();
    assert_eq!(z.grad_fn().unwrap().unwrap().name(), "MulBackward0");
    z.backward_with(tensorplay_autograd::BackwardOptions {
        gradients: &[Some(tensor![1.0_f64, 10.0].unwrap())],
        ..Default::default()
    })
    .unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [3.0, 40.0]);
    assert_eq!(y.grad().unwrap().to_vec::<f64>().unwrap(), [1.0, 20.0]);
    let again = z.backward_with(tensorplay_autograd::BackwardOptions {
        gradients: &[Some(tensor![1.0_f64, 10.0].unwrap())],
        ..Default::default()
    });
    assert!(again.unwrap_err().to_string().contains("a second time"));
}

#[test]
fn in_place_on_a_view_is_followed() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = x.mul_scalar(1.0).unwrap();
    let part = y.narrow(0, 1, 2).unwrap();
    part.mul_scalar_(10.0).unwrap();
    let loss = y.mul(&y).unwrap();
    let g = Tensor::ones(&[3], c10_core::ScalarType::Float64).unwrap();
    loss.backward_with(tensorplay_autograd::BackwardOptions { gradients: &[Some(g)], ..Default::default() })
        .unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [2.0, 400.0, 600.0]);
}

#[test]
fn a_long_chain_is_built_run_and_dropped() {
    let x = leaf(&[1.0]);
    let mut y = x.mul_scalar(1.0).unwrap();
    for _ in 0..200_000 {
        y = y.mul_scalar(1.0).unwrap();
    }
    y.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [1.0]);
    let mut y = x.mul_scalar(1.0).unwrap();
    for _ in 0..200_000 {
        y = y.mul(&x).unwrap();
    }
    drop(y);
}
