//! Derivatives of functions of made-up numbers against finite differences.

use aten::{Result, Tensor};
use tensorplay_autograd::{GradcheckOptions, TensorAutograd, gradcheck, gradgradcheck};

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

/// The tensor as complex numbers of which it has the parts.
pub(crate) fn complex(parts: &Tensor) -> Result<Tensor> {
    parts.view_as_complex()
}

fn leaves(inputs: &[Tensor]) -> Vec<Tensor> {
    let leaf = |input: &Tensor| input.deep_clone().unwrap().requires_grad_(true).unwrap();
    inputs.iter().map(leaf).collect()
}

/// Checks the first derivatives of `f`.
#[track_caller]
pub(crate) fn check_first(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    let checked = gradcheck(f, &leaves(inputs), GradcheckOptions::default());
    checked.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Checks the first and the second derivatives of `f`.
#[track_caller]
pub(crate) fn check(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    check_first(name, inputs, &f);
    let options = GradcheckOptions { fast_mode: true, ..GradcheckOptions::default() };
    let checked = gradgradcheck(&f, &leaves(inputs), options);
    checked.unwrap_or_else(|error| panic!("{name}, second order: {error}"));
}

/// As [`check`], for a function of one result.
#[track_caller]
pub(crate) fn check_one(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    check(name, inputs, |inputs| Ok(vec![f(inputs)?]));
}
