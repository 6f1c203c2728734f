//! Arithmetic with tensors that are given away: in their memory, where nobody else has it.
//!
//! // Note [Tensors given away]
//! Of a tensor with one handle, on memory with one handle, nobody can tell whether its elements change or a new tensor
//! takes its place. With few elements, to make and end tensors, to plan and to lock takes many times as long as the
//! arithmetic: here that is done to the bytes at once, and is no call of the operator. All other tensors, and those
//! whose call would not go straight to the kernel of the host (since autograd, a tracer or a mode stands before it),
//! take the ordinary way. The elements are the same bits on either.

use c10_core::{Scalar, ScalarType};

use super::handles;
use crate::dispatch::local::is_inference_mode;
use crate::error::Result;
use crate::iter::loops::converted;
use crate::tensor::Tensor;

/// More bytes are worth the ordinary way, which has vectors for what the machine can do, and threads.
const FEW: usize = 512;

impl Tensor {
    /// As [`mul_scalar`](Self::mul_scalar), of a tensor that the caller has no more use for.
    ///
    /// # Errors
    /// As there.
    pub fn into_mul_scalar(mut self, other: impl Into<Scalar>) -> Result<Self> {
        let other = other.into();
        let is_plain = handles::MUL_SCALAR.operator()?.leads_to_host(&self);
        match is_plain && change(&mut self, other, |a, b| a * b, |a, b| a * b) {
            true => Ok(self),
            false => handles::MUL_SCALAR.call(&self, other),
        }
    }

    /// As [`div_scalar`](Self::div_scalar), of a tensor that the caller has no more use for.
    ///
    /// # Errors
    /// As there.
    pub fn into_div_scalar(mut self, other: impl Into<Scalar>) -> Result<Self> {
        let other = other.into();
        let is_plain = handles::DIV_SCALAR.operator()?.leads_to_host(&self);
        match is_plain && change(&mut self, other, |a, b| a / b, |a, b| a / b) {
            true => Ok(self),
            false => handles::DIV_SCALAR.call(&self, other),
        }
    }

    /// As [`neg`](Self::neg), of a tensor that the caller has no more use for.
    ///
    /// # Errors
    /// As there.
    pub fn into_neg(mut self) -> Result<Self> {
        let is_plain = handles::NEG.operator()?.leads_to_host(&self);
        match is_plain && change(&mut self, Scalar::Int(0), |a, _| -a, |a, _| -a) {
            true => Ok(self),
            false => handles::NEG.call(&self),
        }
    }
}

/// Changes each element by a number, if that can be done here, and says whether.
#[inline(always)]
fn change(
    tensor: &mut Tensor,
    number: Scalar,
    single: impl Fn(f32, f32) -> f32,
    double: impl Fn(f64, f64) -> f64,
) -> bool {
    // A real tensor and a complex number make a complex one; in inference mode what is made is marked.
    if number.is_complex() || tensor.is_inference() != is_inference_mode() {
        return false;
    }
    let dtype = tensor.dtype();
    let Some(bytes) = tensor.own_elements().filter(|bytes| bytes.len() <= FEW) else { return false };
    match dtype {
        ScalarType::Float32 => {
            let number = converted::<f32>(number);
            each(bytes, |element| single(f32::from_ne_bytes(element), number).to_ne_bytes());
        }
        ScalarType::Float64 => {
            let number = converted::<f64>(number);
            each(bytes, |element| double(f64::from_ne_bytes(element), number).to_ne_bytes());
        }
        _ => return false,
    }
    true
}

#[inline(always)]
fn each<const N: usize>(bytes: &mut [u8], f: impl Fn([u8; N]) -> [u8; N]) {
    let (elements, _) = bytes.as_chunks_mut::<N>();
    elements.iter_mut().for_each(|element| *element = f(*element));
}
