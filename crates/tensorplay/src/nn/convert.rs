//! A module's tensors in another dtype or on another device: all are made first, then put in place.

use aten::{Error, Result, Tensor, TensorOptions};
use tensorplay_autograd::{TensorAutograd, no_grad};

use super::module::Module;
use super::named::{Named, distinct};
use super::parameter::{Buffer, Parameter};
use super::visit::VisitorMut;

/// Pairs of a tensor and what takes its place.
pub(super) type Converted = Vec<(Tensor, Tensor)>;

/// What takes the place of each tensor; one that two names share is converted once, and stays shared.
pub(super) fn convert(all: Named, options: TensorOptions) -> Result<Converted> {
    if let Some(dtype) = options.dtype.filter(|dtype| !dtype.is_floating_point() && !dtype.is_complex()) {
        return Err(Error::dtype(format!(
            "modules are converted to floating point or complex dtypes, and {dtype} is neither"
        )));
    }
    no_grad(|| distinct(all).into_iter().map(|(_, old)| one(&old, options).map(|new| (old, new))).collect())
}

fn one(old: &Tensor, options: TensorOptions) -> Result<Tensor> {
    let has_fraction = old.dtype().is_floating_point() || old.dtype().is_complex();
    let options = TensorOptions { dtype: options.dtype.filter(|_| has_fraction), ..options };
    let new = old.to(options)?;
    if new.is_same(old) {
        return Ok(new);
    }
    // What a conversion without effect gives shares memory with the old one; it is a leaf all the same.
    let new = if old.requires_grad() { new.detach()?.requires_grad_(true)? } else { new };
    if let Some(gradient) = old.grad() {
        new.set_grad(Some(&gradient.to(options)?))?;
    }
    Ok(new)
}

/// Puts the converted tensors in place.
pub(super) struct Replace<'a>(pub(super) &'a Converted);

impl Replace<'_> {
    fn of(&self, old: &Tensor) -> Option<Tensor> {
        self.0.iter().find(|(other, _)| other.is_same(old)).map(|(_, new)| new.clone())
    }
}

impl VisitorMut for Replace<'_> {
    fn parameter(&mut self, _: &str, parameter: &mut Parameter) {
        if let Some(new) = self.of(parameter.tensor()) {
            parameter.replace(new);
        }
    }

    fn buffer(&mut self, _: &str, buffer: &mut Buffer) {
        if let Some(new) = self.of(buffer.tensor()) {
            buffer.replace(new);
        }
    }

    fn module(&mut self, _: &str, module: &mut dyn Module) {
        module.visit_mut(self);
    }
}
