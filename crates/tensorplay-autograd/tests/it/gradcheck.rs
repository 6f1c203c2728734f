//! `gradcheck` and `gradgradcheck`: what they pass, and what each of their checks refuses.

use std::sync::atomic::{AtomicU64, Ordering};

use aten::{Error, ErrorKind, Result, Tensor, tensor};
use c10_core::{Complex, ScalarType};
use tensorplay_autograd::{
    GradcheckOptions, TensorAutograd, gradcheck, gradgradcheck, gradgradcheck_with, no_grad,
};

const DEFAULT: fn() -> GradcheckOptions = GradcheckOptions::default;

fn fast() -> GradcheckOptions {
    GradcheckOptions { fast_mode: true, ..DEFAULT() }
}

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn complex_leaf(values: &[(f64, f64)]) -> Tensor {
    let values: Vec<Complex<f64>> = values.iter().map(|(re, im)| Complex::new(*re, *im)).collect();
    Tensor::from_elements(&values).unwrap().requires_grad_(true).unwrap()
}

fn product(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![inputs[0].mul(&inputs[1])?.mul(&inputs[0])?])
}

/// `x * x` whose gradient comes out as `change` makes it of the one that goes in.
fn square_with(
    change: impl Fn(&Tensor) -> Result<Tensor> + Clone + Send + Sync + 'static,
) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    move |inputs| {
        let y = inputs[0].mul(&inputs[0])?;
        let change = change.clone();
        let _kept = y.register_hook(move |gradient| change(gradient).map(Some))?;
        Ok(vec![y])
    }
}

fn refusal(result: Result<()>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.to_string()
}

#[test]
fn right_derivatives_pass() {
    let inputs = [leaf(&[1.0, -2.0, 0.5]), leaf(&[3.0, 4.0, -1.0])];
    for options in [DEFAULT(), fast()] {
        gradcheck(product, &inputs, options).unwrap();
        gradgradcheck(product, &inputs, options).unwrap();
        let gaps = GradcheckOptions { gen_non_contig_grad_outputs: true, ..options };
        gradgradcheck(product, &inputs, gaps).unwrap();
        // Broadcast, and only one of the two wanted.
        gradcheck(product, &[leaf(&[2.0]), tensor![1.0_f64, 2.0].unwrap()], options).unwrap();
    }
    // What was perturbed is as before.
    assert_eq!(inputs[0].to_vec::<f64>().unwrap(), [1.0, -2.0, 0.5]);
    assert_eq!(inputs[1].to_vec::<f64>().unwrap(), [3.0, 4.0, -1.0]);
    assert!(inputs[0].grad().is_none());
}

#[test]
fn right_derivatives_of_complex_numbers_pass() {
    let inputs = [complex_leaf(&[(1.0, 2.0), (-0.5, 0.25)]), complex_leaf(&[(0.0, 1.5), (3.0, -1.0)])];
    let mixed = [leaf(&[2.0, -1.5]), inputs[1].clone()];
    for options in [DEFAULT(), fast()] {
        gradcheck(product, &inputs, options).unwrap();
        gradgradcheck(product, &inputs, options).unwrap();
        gradcheck(product, &mixed, options).unwrap();
        gradgradcheck(product, &mixed, options).unwrap();
    }
}

#[test]
fn a_wrong_gradient_is_told_with_both_jacobians() {
    let wrong = square_with(|gradient| gradient.mul_scalar(2.0));
    let x = leaf(&[1.0, 3.0]);
    insta::assert_snapshot!(refusal(gradcheck(&wrong, std::slice::from_ref(&x), DEFAULT())), @"
    Jacobian mismatch for output 0 with respect to input 0,
    numerical:tensor([[2.0000, 0.0000],
            [0.0000, 6.0000]], dtype=torch.float64)
    analytical:tensor([[ 4.,  0.],
            [ 0., 12.]], dtype=torch.float64)
    ");
    let text = refusal(gradcheck(&wrong, std::slice::from_ref(&x), fast()));
    assert!(
        text.starts_with("Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"),
        "{text}"
    );
    // Only the second output, with respect to the second input.
    let second = |inputs: &[Tensor]| {
        let right = inputs[0].mul_scalar(3.0)?;
        Ok(vec![right, wrong(&inputs[1..])?.remove(0)])
    };
    let text = refusal(gradcheck(second, &[leaf(&[0.5]), x], DEFAULT()));
    assert!(text.starts_with("Jacobian mismatch for output 1 with respect to input 1,\n"), "{text}");
}

#[test]
fn a_wrong_complex_gradient_is_told_with_its_part() {
    // As if multiplication were by a real number.
    let wrong = square_with(|gradient| gradient.mul_scalar(Complex::new(0.0, 1.0)));
    let z = complex_leaf(&[(1.0, 2.0)]);
    for options in [DEFAULT(), fast()] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(refusal(gradcheck(&wrong, std::slice::from_ref(&z), options)), @"
            While considering the imaginary part of complex outputs only, Jacobian mismatch for output 0 with respect to input 0,
            numerical:tensor([[4.0000+2.0000j]], dtype=torch.complex128)
            analytical:tensor([[-2.+4.j]], dtype=torch.complex128)
            ");
        }
    }
}

#[test]
fn a_wrong_second_derivative_is_told() {
    // The first derivative is right; how it depends on the input is cut off.
    let cut = |inputs: &[Tensor]| {
        let x = &inputs[0];
        let detached = no_grad(|| x.mul_scalar(2.0))?;
        let y = x.mul(&detached)?;
        Ok(vec![y.add(&no_grad(|| x.mul(x)?.mul_scalar(-1.0))?)?])
    };
    let x = leaf(&[1.0, -2.0]);
    gradcheck(cut, std::slice::from_ref(&x), DEFAULT()).unwrap();
    for options in [DEFAULT(), fast()] {
        let text = refusal(gradgradcheck(cut, std::slice::from_ref(&x), options));
        assert!(text.starts_with("Jacobian mismatch for output 0 with respect to input 0,"), "{text}");
    }
}

#[test]
fn a_backward_pass_that_changes_is_told() {
    let drifting = |inputs: &[Tensor]| {
        let y = inputs[0].mul_scalar(1.0)?;
        let calls = AtomicU64::new(0);
        let _kept = y.register_hook(move |gradient| {
            let drift = 1e-9 * calls.fetch_add(1, Ordering::Relaxed) as f64;
            gradient.mul_scalar(1.0 + drift).map(Some)
        })?;
        Ok(vec![y])
    };
    for options in [DEFAULT(), fast()] {
        let text = refusal(gradcheck(drifting, &[leaf(&[1.0, 2.0])], options));
        assert!(text.starts_with("Backward is not reentrant"), "{text}");
    }
    gradcheck(drifting, &[leaf(&[1.0, 2.0])], GradcheckOptions { nondet_tol: 1e-6, ..DEFAULT() }).unwrap();
}

#[test]
fn a_backward_pass_that_makes_something_of_zeros_is_told() {
    let bent = square_with(|gradient| {
        let is_zero = gradient.to_vec::<f64>()?.iter().all(|element| *element == 0.0);
        if is_zero { gradient.add(&tensor![1.0_f64]?) } else { Ok(gradient.clone()) }
    });
    let text = refusal(gradcheck(bent, &[leaf(&[1.0, 2.0])], DEFAULT()));
    assert_eq!(text, "backward not multiplied by grad_output");
}

#[test]
fn undefined_gradients_have_to_count_as_zeros() {
    let x = [leaf(&[1.0, 2.0])];
    let unchecked = GradcheckOptions { check_undefined_grad: false, ..DEFAULT() };
    let refuses = |inputs: &[Tensor]| {
        let y = inputs[0].mul_scalar(3.0)?;
        let _kept = y.grad_fn()?.unwrap().register_prehook(|gradients| match &gradients[0] {
            Some(_) => Ok(None),
            None => Err(Error::invalid_argument("there is none")),
        });
        Ok(vec![y])
    };
    let text = refusal(gradcheck(refuses, &x, DEFAULT()));
    assert_eq!(text, "Expected backward function to handle undefined output grads: there is none");
    gradcheck(refuses, &x, unchecked).unwrap();
    // Zeros beside one that is not defined become ones.
    let fills = |inputs: &[Tensor]| {
        let parts = inputs[0].mul_scalar(1.0)?.unbind()?;
        let _kept = parts[0].grad_fn()?.unwrap().register_prehook(|gradients| match gradients {
            [None, Some(other)] if other.item()? == 0.0 => Ok(Some(vec![None, Some(other.exp()?)])),
            _ => Ok(None),
        });
        Ok(parts)
    };
    let text = refusal(gradcheck(fills, &x, DEFAULT()));
    assert!(text.starts_with("Expected all input grads to be undefined or zero"), "{text}");
    gradcheck(fills, &x, unchecked).unwrap();
}

#[test]
fn results_without_gradients_have_to_be_constant() {
    let constant = |inputs: &[Tensor]| no_grad(|| Ok(vec![inputs[0].mul_scalar(0.0)?]));
    gradcheck(constant, &[leaf(&[1.0])], DEFAULT()).unwrap();
    let hidden = |inputs: &[Tensor]| no_grad(|| Ok(vec![inputs[0].mul_scalar(2.0)?]));
    let text = refusal(gradcheck(hidden, &[leaf(&[1.0])], DEFAULT()));
    assert_eq!(text, "Numerical gradient for function expected to be zero");
    let text = refusal(gradgradcheck(hidden, &[leaf(&[1.0])], DEFAULT()));
    assert!(text.starts_with("gradgradcheck expects at least one output"), "{text}");
}

#[test]
fn inputs_that_cannot_be_perturbed_are_refused() {
    let twice = |inputs: &[Tensor]| Ok(vec![inputs[0].mul_scalar(2.0)?]);
    let text = refusal(gradcheck(twice, &[tensor![1.0_f64].unwrap()], DEFAULT()));
    assert!(text.starts_with("gradcheck expects at least one input tensor to require gradient"), "{text}");
    let x = tensor![1.0_f64, 2.0, 3.0].unwrap();
    for (sizes, strides) in [([3, 2], [1, 0]), ([2, 2], [1, 1])] {
        let overlapping = x.as_strided(&sizes, &strides).unwrap().requires_grad_(true).unwrap();
        let text = refusal(gradcheck(twice, &[overlapping], DEFAULT()));
        assert!(text.starts_with("The 0th input has elements that share memory"), "{text}");
    }
    // Gaps do no harm.
    let gaps = x.as_strided(&[2], &[2]).unwrap().requires_grad_(true).unwrap();
    gradcheck(twice, &[gaps], DEFAULT()).unwrap();
}

#[test]
fn what_fails_for_want_of_precision_says_so() {
    let x = Tensor::from_elements(&[1.0_f32, 2.0]).unwrap().requires_grad_(true).unwrap();
    let square = |inputs: &[Tensor]| Ok(vec![inputs[0].mul(&inputs[0])?]);
    let text = refusal(gradcheck(square, std::slice::from_ref(&x), DEFAULT()));
    assert!(text.contains("Input #0 requires gradient and is not a double precision"), "{text}");
    let coarse = GradcheckOptions { eps: 1e-2, atol: 1e-2, rtol: 1e-2, ..DEFAULT() };
    gradcheck(square, &[x], coarse).unwrap();
}

#[test]
fn a_function_that_changes_its_shape_is_refused() {
    let unsteady = |inputs: &[Tensor]| {
        let y = inputs[0].mul_scalar(2.0)?;
        Ok(vec![if inputs[0].to_vec::<f64>()?[0] > 1.0 { y.narrow(0, 0, 1)? } else { y }])
    };
    let x = leaf(&[1.0, 2.0]);
    let text = refusal(gradcheck(unsteady, std::slice::from_ref(&x), DEFAULT()));
    assert!(text.contains("when inputs are perturbed on index [0] by 1e-6"), "{text}");
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.0, 2.0]);
}

#[test]
fn gradients_of_outputs_can_be_given() {
    let x = leaf(&[1.0, 2.0]);
    let square = |inputs: &[Tensor]| Ok(vec![inputs[0].mul(&inputs[0])?]);
    gradgradcheck_with(square, std::slice::from_ref(&x), &[leaf(&[0.5, -3.0])], DEFAULT()).unwrap();
    let empty = Tensor::zeros(&[0, 3], ScalarType::Float64).unwrap().requires_grad_(true).unwrap();
    gradgradcheck(square, &[empty], DEFAULT()).unwrap();
}
