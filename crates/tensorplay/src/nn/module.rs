//! [`Module`]: a tree of named parameters and buffers; [`Forward`]: one that makes a tensor of a tensor.
//!
//! Differs from PyTorch: `forward` is apart from the tree, since a module may take two tensors or give three. Such a
//! one has a `forward` method of its own.

use std::fmt::Debug;
use std::path::Path;

use aten::{Result, Tensor, TensorOptions};
use tensorplay_autograd::TensorAutograd;

use super::parameter::Training;
use super::visit::{Visitor, VisitorMut};
use super::{convert, named, state_dict};

/// A tree of named parameters and buffers (`torch.nn.Module`).
///
/// Names and their order are PyTorch's: what a module holds itself, then the modules inside it, with a point
/// between their names. [`parts!`](crate::parts) writes the two methods that have no default.
pub trait Module: Debug + Send + Sync {
    /// Shows each part in order, not the parts of parts.
    fn visit(&self, visitor: &mut dyn Visitor);

    /// Shows each part in order, to be changed.
    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut);

    /// Every parameter with its name. One that is there under two names has the first (`named_parameters`).
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut all = Vec::new();
        self.visit(&mut named::Parameters::new(&mut all));
        named::distinct(all)
    }

    /// Every parameter, as an optimiser takes them (`parameters`).
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Every buffer with its name (`named_buffers`).
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let mut all = Vec::new();
        self.visit(&mut named::Buffers::new(&mut all));
        named::distinct(all)
    }

    /// Switches the module and all inside it to training, or back (`train`).
    fn train(&mut self, training: bool) {
        self.visit_mut(&mut named::Train(Training(training)));
    }

    /// As [`train(false)`](Self::train) (`eval`).
    fn eval(&mut self) {
        self.train(false);
    }

    /// Says for each parameter whether its gradient is wanted (`requires_grad_`).
    ///
    /// # Errors
    /// As [`TensorAutograd::requires_grad_`].
    fn requires_grad_(&self, requires_grad: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.requires_grad_(requires_grad).map(drop))
    }

    /// Takes away the gradient of each parameter (`zero_grad`).
    ///
    /// # Errors
    /// As [`TensorAutograd::set_grad`].
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// Converts parameters and buffers to a device, and those of floating or complex dtype to a dtype (`to`).
    /// Gradients go with them. Handles that others hold, as an optimiser does, stay with the old tensors: convert
    /// first.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) for a dtype that is neither floating nor complex, and as
    /// [`Tensor::to`]; the module then is as it was.
    fn to(&mut self, options: TensorOptions) -> Result<()> {
        let mut all = Vec::new();
        self.visit(&mut named::All::new(&mut all));
        let converted = convert::convert(all, options)?;
        self.visit_mut(&mut convert::Replace(&converted));
        Ok(())
    }

    /// Every parameter and buffer with its name, detached, on the module's own memory (`state_dict`).
    ///
    /// # Errors
    /// As [`Tensor::detach`].
    fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        self.visit(&mut named::All::new(&mut all));
        all.into_iter().map(|(name, tensor)| Ok((name, tensor.detach()?))).collect()
    }

    /// Writes the tensors of a state dict over the module's own, in place (`load_state_dict` with `strict=True`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) that lists every name that is missing, not
    /// expected, there twice or of other sizes; nothing is written then.
    fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        let mut all = Vec::new();
        self.visit(&mut named::All::new(&mut all));
        state_dict::load(&all, state)
    }

    /// Writes the state dict as a safetensors file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](aten::ErrorKind::Io) when the file cannot be made, and as [`aten::io::safetensors::write`].
    fn save(&self, path: &Path) -> Result<()> {
        state_dict::save(path, &self.state_dict()?)
    }

    /// Reads a safetensors file of a state dict, and loads it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](aten::ErrorKind::Io) when it cannot be read, and as [`load_state_dict`](Self::load_state_dict)
    /// and [`aten::io::safetensors::SafeTensors::from_bytes`].
    fn load(&self, path: &Path) -> Result<()> {
        self.load_state_dict(&state_dict::read(path)?)
    }
}

/// A module that makes a tensor of a tensor.
pub trait Forward: Module {
    /// The result for `input` (`forward`, `__call__`).
    ///
    /// # Errors
    /// When the operators that it is made of refuse the input.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        (**self).visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        (**self).visit_mut(visitor);
    }
}

impl<M: Forward + ?Sized> Forward for Box<M> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        (**self).forward(input)
    }
}
