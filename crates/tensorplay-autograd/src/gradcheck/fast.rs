//! Jacobians, compared along one random direction of each input and output.

use aten::random::Generator;
use aten::{Error, Result, Tensor};
use c10_core::Complex;

use super::function::{Function, with_elements};
use super::numerical::{Outputs, along};
use super::options::GradcheckOptions;
use super::{analytical, random, slow};
use crate::TensorAutograd;

/// Compares `v^T J u`: numerically as the change of the outputs along `u`, seen along `v`; analytically as the gradient
/// that comes of `v`, seen along `u`.
///
/// # Errors
/// They are not near enough; with the whole Jacobians where these differ, too.
pub(super) fn check(function: &Function<'_>, options: &GradcheckOptions) -> Result<()> {
    let generator = Generator::with_seed(options.seed);
    let vector =
        |tensor: &Tensor| random::direction(&generator, tensor.numel() as usize, tensor.dtype().is_complex());
    let wanted = function.wanted();
    let results = function.call()?;
    let outputs = Outputs::of(&results, TensorAutograd::requires_grad);
    let of_inputs: Vec<Vec<Complex<f64>>> = wanted.iter().map(vector).collect();
    let of_outputs: Vec<Vec<Complex<f64>>> = outputs.iter().map(vector).collect();
    let mut changes = Vec::with_capacity(wanted.len());
    for (input, direction) in wanted.iter().zip(&of_inputs) {
        changes.push(along(function, input, direction, &outputs, options.eps)?);
    }
    // Elements were changed in place since: these outputs know the versions that are.
    for (at, output) in function.differentiable_outputs()?.iter().enumerate() {
        let v = &of_outputs[at];
        let (first, again) = (gradients(output, v, &wanted)?, gradients(output, v, &wanted)?);
        for (input, u) in of_inputs.iter().enumerate() {
            let (analytical, repeated) = (dot(&first[input], u), dot(&again[input], u));
            if (analytical - repeated).abs() > options.nondet_tol {
                return Err(Error::invalid_argument(format!(
                    "Backward is not reentrant: it gave {analytical:?} and then {repeated:?} for output {at} with respect \
                     to input {input}. The tolerance for nondeterminism was {:?}.",
                    options.nondet_tol
                )));
            }
            let numerical = dot(v, &changes[input][at]);
            // Each element of the Jacobian may be as far off as `atol`.
            let tolerance = options.atol * sum(u) * sum(v) + options.rtol * numerical.abs();
            if (analytical - numerical).abs() <= tolerance {
                continue;
            }
            slow::check(function, options)?;
            return Err(Error::invalid_argument(format!(
                "Jacobian mismatch for output {at} with respect to input {input},\nnumerical:{numerical:?}\n\
                 analytical:{analytical:?}\nFast gradcheck failed but element-wise differences are small."
            )));
        }
    }
    Ok(())
}

fn gradients(output: &Tensor, v: &[Complex<f64>], inputs: &[Tensor]) -> Result<Vec<Vec<Complex<f64>>>> {
    analytical::products(output, with_elements(output, v)?, inputs)
}

/// The sum over parts of the products; of no elements, 0.
fn dot(a: &[Complex<f64>], b: &[Complex<f64>]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.re * b.re + a.im * b.im).sum()
}

fn sum(values: &[Complex<f64>]) -> f64 {
    values.iter().map(|value| value.re + value.im).sum()
}
