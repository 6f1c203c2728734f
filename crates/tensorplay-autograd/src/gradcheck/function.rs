//! [`Function`]: what is checked, and at which point.

use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::{Complex, Device, Scalar, ScalarType};

use crate::TensorAutograd;
use crate::mode::no_grad;

/// A function and its inputs.
pub(super) struct Function<'a> {
    f: &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &'a [Tensor],
    /// The places of the inputs that require a gradient.
    wanted: Vec<usize>,
}

impl<'a> Function<'a> {
    /// Takes inputs whose elements can be perturbed one by one.
    pub(super) fn try_new(
        f: &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
        inputs: &'a [Tensor],
    ) -> Result<Self> {
        let wanted: Vec<usize> = (0..inputs.len()).filter(|at| inputs[*at].requires_grad()).collect();
        if wanted.is_empty() {
            return Err(Error::invalid_argument(
                "gradcheck expects at least one input tensor to require gradient, but none of them have \
                 requires_grad=True.",
            ));
        }
        for &at in &wanted {
            // Differs from PyTorch: it looks for strides of 0 alone.
            if shares_elements(&inputs[at])? {
                return Err(Error::invalid_argument(format!(
                    "The {at}th input has elements that share memory (sizes {:?}, strides {:?}). gradcheck only supports \
                     inputs that are non-overlapping to be able to compute the numerical gradients correctly. You should \
                     call .contiguous on the input before passing it to gradcheck.",
                    inputs[at].sizes(),
                    inputs[at].strides()
                )));
            }
        }
        Ok(Self { f, inputs, wanted })
    }

    pub(super) fn call(&self) -> Result<Vec<Tensor>> {
        (self.f)(self.inputs)
    }

    /// The results that require a gradient.
    pub(super) fn differentiable_outputs(&self) -> Result<Vec<Tensor>> {
        let mut outputs = self.call()?;
        outputs.retain(TensorAutograd::requires_grad);
        Ok(outputs)
    }

    /// The inputs that require a gradient.
    pub(super) fn wanted(&self) -> Vec<Tensor> {
        self.wanted.iter().map(|at| self.inputs[*at].clone()).collect()
    }

    /// What is to be said when the check fails for want of precision.
    pub(super) fn note_on_precision(&self) -> String {
        let is_double =
            |at: &&usize| matches!(self.inputs[**at].dtype(), ScalarType::Float64 | ScalarType::Complex128);
        match self.wanted.iter().find(|at| !is_double(at)) {
            Some(at) => format!(
                "Input #{at} requires gradient and is not a double precision floating point or complex. This check will \
                 likely fail if all the inputs are not of double precision floating point or complex.\n"
            ),
            None => String::new(),
        }
    }
}

/// Whether two elements are in one place.
fn shares_elements(tensor: &Tensor) -> Result<bool> {
    if tensor.is_non_overlapping_and_dense() || tensor.numel() == 0 {
        return Ok(false);
    }
    let mut places = vec![0_i64];
    for (size, stride) in tensor.sizes().iter().zip(tensor.strides().iter()) {
        places =
            places.iter().flat_map(|place| (0..*size).map(move |index| place + index * stride)).collect();
    }
    places.sort_unstable();
    Ok(places.windows(2).any(|pair| pair[0] == pair[1]))
}

/// The elements in row-major order, as wide as numbers are compared here.
pub(super) fn elements(tensor: &Tensor) -> Result<Vec<Complex<f64>>> {
    no_grad(|| {
        let options = TensorOptions::default().dtype(ScalarType::Complex128).device(Device::CPU);
        tensor.detach()?.resolve_neg()?.to(options)?.resolve_conj()?.to_vec()
    })
}

/// A tensor like `model`, row-major, with these elements.
pub(super) fn with_elements(model: &Tensor, elements: &[Complex<f64>]) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(model.dtype()).device(model.device());
    no_grad(|| match model.dtype().is_complex() {
        true => Tensor::from_slice(elements, &model.sizes())?.to(options),
        false => {
            let real: Vec<f64> = elements.iter().map(|element| element.re).collect();
            Tensor::from_slice(&real, &model.sizes())?.to(options)
        }
    })
}

/// The number, for a tensor that may be real.
pub(super) fn scalar(value: Complex<f64>, is_complex: bool) -> Scalar {
    if is_complex { Scalar::Complex(value) } else { Scalar::Double(value.re) }
}
