//! [`gradcheck`].

use aten::{Result, Tensor};

use super::function::Function;
use super::options::GradcheckOptions;
use super::{analytical, fast, slow};
use crate::TensorAutograd;

/// Compares the derivatives of `f` at `inputs` with finite differences, for all inputs that require a gradient
/// (`torch.autograd.gradcheck`). `f` gives the same each time, and changes none of its inputs.
///
/// Also checked: that a second backward call gives the same, that gradients of zeros give zeros, and that gradients
/// that are not defined count as zeros. Finite differences need inputs of double precision (`Float64`, `Complex128`)
/// and a point where `f` is smooth.
///
/// ```
/// use aten::tensor;
/// use tensorplay_autograd::{GradcheckOptions, TensorAutograd, gradcheck};
///
/// let x = tensor![1.0_f64, 2.0]?.requires_grad_(true)?;
/// gradcheck(|inputs| Ok(vec![inputs[0].mul(&inputs[0])?]), &[x], GradcheckOptions::default())?;
/// # Ok::<(), aten::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when something does not agree, with what and where:
/// `Jacobian mismatch for output 0 with respect to input 0` and both Jacobians. Likewise when no input requires a
/// gradient, or one does that has several elements in one place. What `f` or a backward call returns.
pub fn gradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<()> {
    let function = Function::try_new(&f, inputs)?;
    let results = function.call()?;
    if !results.iter().any(TensorAutograd::requires_grad) {
        return slow::check_constant(&function, &results, options.eps);
    }
    drop(results);
    if options.fast_mode {
        fast::check(&function, &options)?;
    } else {
        slow::check(&function, &options)?;
    }
    analytical::check_multiplied(&function.differentiable_outputs()?, &function.wanted())?;
    if options.check_undefined_grad {
        analytical::check_undefined(&function)?;
    }
    Ok(())
}
