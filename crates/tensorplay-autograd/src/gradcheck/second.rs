//! [`gradgradcheck`].

use aten::random::Generator;
use aten::{Error, Result, Tensor};

use super::check::gradcheck;
use super::function::with_elements;
use super::options::GradcheckOptions;
use super::random;
use crate::TensorAutograd;
use crate::engine::{GradOptions, grad_with};
use crate::mode::no_grad;

/// Compares the second derivatives of `f` with finite differences of the first: [`gradcheck`] of the function that
/// takes inputs and gradients of outputs to gradients of inputs (`torch.autograd.gradgradcheck`). The gradients of the
/// outputs are random numbers from -1 to 1.
///
/// # Errors
/// As [`gradcheck`]; and when no result of `f` requires a gradient.
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<()> {
    let generator = Generator::with_seed(options.seed);
    let outputs = f(inputs)?;
    let outputs = outputs.iter().filter(|output| output.requires_grad());
    let gradients: Result<Vec<Tensor>> = outputs
        .map(|output| {
            let count = output.numel() as usize;
            let elements = random::gradient(&generator, count, output.dtype().is_complex());
            let gradient = with_elements(output, &elements)?;
            let gradient = if options.gen_non_contig_grad_outputs { with_gaps(&gradient)? } else { gradient };
            gradient.requires_grad_(true)
        })
        .collect();
    gradgradcheck_with(f, inputs, &gradients?, options)
}

/// As [`gradgradcheck`], with the gradients of the outputs: one for each result that requires a gradient.
///
/// # Errors
/// As there.
pub fn gradgradcheck_with(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    grad_outputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<()> {
    if grad_outputs.is_empty() {
        return Err(Error::invalid_argument(
            "gradgradcheck expects at least one output that requires gradient, but there is none.",
        ));
    }
    let gradients_of = |all: &[Tensor]| {
        let (inputs, gradients) = all.split_at(inputs.len());
        let mut outputs = f(inputs)?;
        outputs.retain(TensorAutograd::requires_grad);
        let wanted: Vec<Tensor> = inputs.iter().filter(|input| input.requires_grad()).cloned().collect();
        let gradients: Vec<Option<Tensor>> = gradients.iter().cloned().map(Some).collect();
        let options = GradOptions {
            grad_outputs: &gradients,
            create_graph: true,
            allow_unused: true,
            ..GradOptions::default()
        };
        Ok(grad_with(&outputs, &wanted, options)?.into_iter().flatten().collect())
    };
    gradcheck(gradients_of, &[inputs, grad_outputs].concat(), options)
}

/// The same elements, every other one of twice as many.
fn with_gaps(tensor: &Tensor) -> Result<Tensor> {
    let twice = [&tensor.sizes()[..], &[2]].concat();
    no_grad(|| tensor.unsqueeze(-1)?.expand(&twice)?.contiguous()?.select(-1, 0))
}
