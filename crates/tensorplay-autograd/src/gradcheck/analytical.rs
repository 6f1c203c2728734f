//! Derivatives by backward calls, and what backward calls have to keep to.

use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::Complex;

use super::function::{Function, elements, with_elements};
use super::jacobian::{Jacobian, Part};
use super::options::GradcheckOptions;
use crate::engine::{self, GradOptions};

/// The Jacobians of a part of `output` with respect to `inputs`, computed twice.
///
/// # Errors
/// What a backward call refuses; the two are not the same.
pub(super) fn jacobians(
    output: &Tensor,
    part: Part,
    inputs: &[Tensor],
    options: &GradcheckOptions,
) -> Result<Vec<Jacobian>> {
    let (first, again) = (once(output, part, inputs)?, once(output, part, inputs)?);
    let tolerance = options.nondet_tol;
    if first.iter().zip(&again).all(|(first, again)| first.is_within(again, tolerance)) {
        return Ok(first);
    }
    Err(Error::invalid_argument(format!(
        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different \
         values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism was \
         {tolerance:?}."
    )))
}

fn once(output: &Tensor, part: Part, inputs: &[Tensor]) -> Result<Vec<Jacobian>> {
    let columns = output.numel() as usize;
    let mut jacobians: Vec<Jacobian> = inputs.iter().map(|input| Jacobian::zeros(input, columns)).collect();
    let mut unit = vec![Complex::new(0.0, 0.0); columns];
    for column in 0..columns {
        unit[column] = part.gradient();
        let gradients = products(output, with_elements(output, &unit)?, inputs)?;
        unit[column] = Complex::new(0.0, 0.0);
        for (jacobian, gradient) in jacobians.iter_mut().zip(gradients) {
            for (row, value) in gradient.into_iter().enumerate() {
                jacobian.set(row, column, value);
            }
        }
    }
    Ok(jacobians)
}

/// The elements of the gradients of `inputs` that come of a gradient of `output`; none for zeros.
///
/// # Errors
/// What the backward call refuses; a gradient has another size than its input.
pub(super) fn products(
    output: &Tensor,
    gradient: Tensor,
    inputs: &[Tensor],
) -> Result<Vec<Vec<Complex<f64>>>> {
    let options = GradOptions {
        grad_outputs: &[Some(gradient)],
        retain_graph: Some(true),
        allow_unused: true,
        ..GradOptions::default()
    };
    let gradients = engine::grad_with(std::slice::from_ref(output), inputs, options)?;
    let read = |(gradient, input): (Option<Tensor>, &Tensor)| match gradient {
        Some(gradient) if gradient.sizes() != input.sizes() => {
            Err(Error::invalid_argument("Analytical gradient has incorrect size"))
        }
        Some(gradient) => elements(&gradient),
        None => Ok(Vec::new()),
    };
    gradients.into_iter().zip(inputs).map(read).collect()
}

/// Gradients of zeros give zeros.
///
/// # Errors
/// They do not.
pub(super) fn check_multiplied(outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    let zeros = zeros_of(outputs)?;
    let options = GradOptions {
        grad_outputs: &zeros,
        retain_graph: Some(true),
        allow_unused: true,
        ..GradOptions::default()
    };
    let gradients = engine::grad_with(outputs, inputs, options)?;
    if are_zeros(&gradients)? {
        return Ok(());
    }
    Err(Error::invalid_argument("backward not multiplied by grad_output"))
}

/// Gradients that are not defined are taken for zeros: all of them, and one at a time.
///
/// # Errors
/// They are not.
pub(super) fn check_undefined(function: &Function<'_>) -> Result<()> {
    let inputs = function.wanted();
    let outputs = function.differentiable_outputs()?;
    let mut cases = vec![vec![None; outputs.len()]];
    if outputs.len() > 1 {
        for at in 0..outputs.len() {
            let mut gradients = zeros_of(&outputs)?;
            gradients[at] = None;
            cases.push(gradients);
        }
    }
    for gradients in cases {
        // Each of its own graph: a node may give up what it saved.
        let outputs = function.differentiable_outputs()?;
        let given = engine::grad_of_undefined(&outputs, &inputs, &gradients).map_err(|error| {
            Error::new(
                error.kind(),
                format!("Expected backward function to handle undefined output grads: {error}"),
            )
        })?;
        if !are_zeros(&given)? {
            return Err(Error::invalid_argument(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero.",
            ));
        }
    }
    Ok(())
}

fn zeros_of(outputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
    outputs.iter().map(|output| output.zeros_like(TensorOptions::default()).map(Some)).collect()
}

fn are_zeros(gradients: &[Option<Tensor>]) -> Result<bool> {
    for gradient in gradients.iter().flatten() {
        if elements(gradient)?.iter().any(|value| value.re != 0.0 || value.im != 0.0) {
            return Ok(false);
        }
    }
    Ok(true)
}
