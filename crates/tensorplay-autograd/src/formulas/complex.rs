//! Gradients of complex numbers made of real ones.

use aten::{Result, Tensor};
use c10_core::{Complex, Scalar};

/// Of `polar`, for the length and for the angle.
pub(crate) fn polar_backward(grad: &Tensor, result: &Tensor) -> Result<(Tensor, Tensor)> {
    let grad = grad.conj()?;
    let of_abs = (&grad * result.sgn()?)?.real()?;
    let turned = result.mul_scalar(Scalar::Complex(Complex { re: 0.0, im: 1.0 }))?;
    Ok((of_abs, (&grad * turned)?.real()?))
}
