//! Whole Jacobians, compared.

use aten::{Error, Result, Tensor};

use super::analytical;
use super::function::Function;
use super::jacobian::{Jacobian, Part};
use super::numerical::{Differences, Outputs};
use super::options::GradcheckOptions;
use crate::TensorAutograd;

/// Compares the Jacobians of all results that require a gradient.
///
/// # Errors
/// They are not near enough: which, and both.
pub(super) fn check(function: &Function<'_>, options: &GradcheckOptions) -> Result<()> {
    let wanted = function.wanted();
    let results = function.call()?;
    let outputs = Outputs::of(&results, TensorAutograd::requires_grad);
    let differences = differences(function, &wanted, &outputs, options.eps)?;
    // Elements were changed in place since: these outputs know the versions that are.
    let outputs = function.differentiable_outputs()?;
    let is_complex = |output: &Tensor| output.dtype().is_complex();
    let parts: &[Part] =
        if outputs.iter().any(is_complex) { &[Part::Imaginary, Part::Real] } else { &[Part::Real] };
    for &part in parts {
        for (at, output) in outputs.iter().enumerate() {
            if part == Part::Imaginary && !is_complex(output) {
                continue;
            }
            let analytical = analytical::jacobians(output, part, &wanted, options)?;
            for (input, analytical) in analytical.iter().enumerate() {
                let numerical = differences[input].jacobian(at, part, output.numel() as usize);
                if !analytical.is_close_to(&numerical, options) {
                    let prefix = if is_complex(output) { prefix(part) } else { "" };
                    let note = function.note_on_precision();
                    return Err(mismatch(prefix, at, input, &numerical, analytical, &note));
                }
            }
        }
    }
    Ok(())
}

/// A function without differentiable results does not change with its inputs.
///
/// # Errors
/// It does.
pub(super) fn check_constant(function: &Function<'_>, results: &[Tensor], eps: f64) -> Result<()> {
    let has_derivative = |result: &Tensor| result.dtype().is_floating_point() || result.dtype().is_complex();
    let outputs = Outputs::of(results, has_derivative);
    let differences = differences(function, &function.wanted(), &outputs, eps)?;
    for difference in &differences {
        for (at, output) in outputs.iter().enumerate() {
            for part in [Part::Real, Part::Imaginary] {
                if !difference.jacobian(at, part, output.numel() as usize).is_zero() {
                    return Err(Error::invalid_argument(
                        "Numerical gradient for function expected to be zero",
                    ));
                }
            }
        }
    }
    Ok(())
}

fn differences(
    function: &Function<'_>,
    inputs: &[Tensor],
    outputs: &Outputs,
    eps: f64,
) -> Result<Vec<Differences>> {
    inputs.iter().map(|input| Differences::of(function, input, outputs, eps)).collect()
}

fn prefix(part: Part) -> &'static str {
    match part {
        Part::Imaginary => "While considering the imaginary part of complex outputs only, ",
        Part::Real => "While considering the real part of complex outputs only, ",
    }
}

fn mismatch(
    prefix: &str,
    output: usize,
    input: usize,
    numerical: &Jacobian,
    analytical: &Jacobian,
    note: &str,
) -> Error {
    Error::invalid_argument(format!(
        "{prefix}Jacobian mismatch for output {output} with respect to input {input},\nnumerical:{numerical}\n\
         analytical:{analytical}\n{note}"
    ))
}
