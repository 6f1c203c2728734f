//! Gradients of Fourier transforms of real numbers.

use aten::{Result, Tensor};

use super::shape::wrapped;

/// Of real to complex: the half that was not given is zeros, and the real part of the transform back is what counts.
pub(crate) fn r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let Some(last) = dim.last().map(|last| wrapped(*last, grad.rank())) else { return Ok(grad.clone()) };
    let mut full = grad.sizes();
    let given = std::mem::replace(&mut full[last], sizes[last]);
    let back = match onesided && given != sizes[last] {
        true => grad.slice_backward(&full, last as i64, 0, given, 1)?._fft_c2c(dim, normalization, false)?,
        false => grad._fft_c2c(dim, normalization, false)?,
    };
    back.real()
}

/// Of complex to real: what stands for its conjugate too counts twice.
pub(crate) fn c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let given = grad._fft_r2c(dim, normalization, true)?;
    let Some(last) = dim.last().map(|last| wrapped(*last, grad.rank())) else { return Ok(given) };
    let doubles = grad.sizes()[last] - given.sizes()[last];
    if doubles > 0 {
        given.narrow(last as i64, 1, doubles)?.mul_scalar_(2)?;
    }
    Ok(given)
}
