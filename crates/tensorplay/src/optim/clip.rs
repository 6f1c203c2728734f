//! Gradients cut down to a size (`torch.nn.utils.clip_grad_norm_`, `clip_grad_value_`).

use aten::tensor::LinalgVectorNormOptions;
use aten::{Error, Result, Tensor};
use tensorplay_autograd::{TensorAutograd, no_grad};

/// What [`clip_grad_norm_`] takes beside the parameters and the size.
#[derive(Clone, Copy, Debug)]
pub struct ClipOptions {
    /// Which norm is taken. By default 2; infinity takes the largest element.
    pub norm_type: f64,
    /// Refuses gradients that are not finite.
    pub error_if_nonfinite: bool,
}

impl Default for ClipOptions {
    fn default() -> Self {
        Self { norm_type: 2.0, error_if_nonfinite: false }
    }
}

/// Scales all gradients by one factor, in place, so that their norm, taken together, is at most `max_norm`; gives the
/// norm before.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when it is not finite and that is refused; nothing
/// is scaled then.
pub fn clip_grad_norm_(parameters: &[Tensor], max_norm: f64, options: ClipOptions) -> Result<Tensor> {
    let gradients: Vec<Tensor> = parameters.iter().filter_map(TensorAutograd::grad).collect();
    let Some(first) = gradients.first() else {
        return Tensor::zeros(&[], aten::TensorOptions::default());
    };
    let norm_of = |tensor: &Tensor| {
        let ord = options.norm_type.into();
        tensor.linalg_vector_norm_with(LinalgVectorNormOptions { ord, ..Default::default() })
    };
    no_grad(|| {
        let norms: Vec<Tensor> =
            gradients.iter().map(|gradient| norm_of(gradient)?.to(first.device())).collect::<Result<_>>()?;
        let total = norm_of(&Tensor::stack(&norms)?)?;
        if options.error_if_nonfinite && !total.item()?.to::<f64>()?.is_finite() {
            return Err(Error::invalid_argument(format!(
                "the total norm of order {} of the gradients is not finite, and cannot be clipped",
                options.norm_type
            )));
        }
        let factor = total.add_scalar(1e-6)?.pow_scalar(-1.0)?.mul_scalar(max_norm)?.clamp_max(1.0)?;
        for gradient in &gradients {
            gradient.mul_(&factor.to((gradient.dtype(), gradient.device()))?)?;
        }
        Ok(total)
    })
}

/// Cuts each element of each gradient down to `[-clip_value, clip_value]`, in place.
///
/// # Errors
/// When an operator refuses.
pub fn clip_grad_value_(parameters: &[Tensor], clip_value: f64) -> Result<()> {
    let range = aten::tensor::ClampOptions { min: Some((-clip_value).into()), max: Some(clip_value.into()) };
    no_grad(|| {
        let mut gradients = parameters.iter().filter_map(TensorAutograd::grad);
        gradients.try_for_each(|gradient| gradient.clamp_with_(range).map(drop))
    })
}
