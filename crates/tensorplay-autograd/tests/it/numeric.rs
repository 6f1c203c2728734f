//! Gradients against differences of the function itself.

use aten::{Result, Tensor, TensorOptions};
use c10_core::ScalarType;
use tensorplay_autograd::{GradOptions, TensorAutograd, grad_with};

/// Numbers of no pattern that matters: none is zero, no two are alike.
pub(crate) fn numbers(sizes: &[i64], seed: u32) -> Tensor {
    let count = sizes.iter().product::<i64>() as usize;
    let at = |i: usize| {
        let x = ((i as f64 + 1.0) * 12.9898 + f64::from(seed) * 78.233).sin() * 43758.5453;
        (x - x.floor()) * 2.0 - 0.93
    };
    let values: Vec<f64> = (0..count).map(at).collect();
    Tensor::from_slice(&values, sizes).unwrap()
}

/// `values` as places.
pub(crate) fn places(values: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

fn leaf(tensor: &Tensor) -> Tensor {
    tensor.detach().unwrap().deep_clone().unwrap().requires_grad_(true).unwrap()
}

/// A number that depends on all elements in different ways.
fn weighted(tensors: &[Tensor]) -> Result<Tensor> {
    let mut sum = Tensor::zeros(&[], ScalarType::Float64)?;
    for (at, tensor) in tensors.iter().enumerate() {
        let tensor = match tensor.dtype().is_complex() {
            true => tensor.resolve_conj()?.view_as_real()?,
            false => tensor.clone(),
        };
        sum = (&sum + (&tensor * numbers(&tensor.sizes(), 100 + at as u32))?.sum()?)?;
    }
    Ok(sum)
}

/// Compares the gradients of `f` with differences.
#[track_caller]
pub(crate) fn check_first(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    let leaves: Vec<Tensor> = inputs.iter().map(leaf).collect();
    let value = |inputs: &[Tensor]| weighted(&f(inputs)?);
    let out = value(&leaves).unwrap_or_else(|error| panic!("{name}: {error}"));
    let options = GradOptions { allow_unused: true, materialize_grads: true, ..GradOptions::default() };
    let grads = grad_with(&[out], &leaves, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    for (which, (input, grad)) in inputs.iter().zip(&grads).enumerate() {
        let grad = grad.as_ref().expect("zeros are made");
        assert_eq!(grad.sizes()[..], input.sizes()[..], "{name}: sizes of gradient {which}");
        let grad = grad.reshape(&[-1]).unwrap().to_vec::<f64>().unwrap();
        let elements = input.reshape(&[-1]).unwrap().to_vec::<f64>().unwrap();
        for (at, element) in elements.iter().enumerate() {
            let step = 1e-5;
            let moved = |by: f64| {
                let mut elements = elements.clone();
                elements[at] = element + by;
                let mut inputs: Vec<Tensor> = inputs.iter().map(leaf).collect();
                inputs[which] = leaf(&Tensor::from_slice(&elements, &input.sizes()).unwrap());
                value(&inputs).unwrap().detach().unwrap().to_vec::<f64>().unwrap()[0]
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            let off = (slope - grad[at]).abs();
            assert!(
                off <= 1e-6 + 1e-6 * slope.abs(),
                "{name}: gradient {which} at {at} is {}, the slope is {slope}",
                grad[at]
            );
        }
    }
}

/// Compares the gradients of `f`, and those of a function of its gradients.
#[track_caller]
pub(crate) fn check(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    check_first(name, inputs, &f);
    check_first(&format!("{name}, second order"), inputs, |inputs| {
        let outs = f(inputs)?;
        let options = GradOptions {
            create_graph: true,
            allow_unused: true,
            materialize_grads: true,
            ..GradOptions::default()
        };
        // Not linear in the result, so that what comes in depends on the inputs.
        let out = weighted(&outs)?;
        let out = (out.sin()? + &out)?;
        Ok(grad_with(&[out], inputs, options)?.into_iter().flatten().collect())
    });
}

/// As [`check`], for a function of one result.
#[track_caller]
pub(crate) fn check_one(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    check(name, inputs, |inputs| Ok(vec![f(inputs)?]));
}

/// The tensor as complex numbers of which it has the parts.
pub(crate) fn complex(parts: &Tensor) -> Result<Tensor> {
    parts.to(TensorOptions::default())?.view_as_complex()
}
