//! [`Parameter`], [`Buffer`] and [`Training`]: what a module is made of beside other modules.
//!
//! The first two are tensors, which are shared handles: an optimiser holds the same tensors as the module, and what
//! either writes in place the other sees.

use std::ops::Deref;

use aten::{Result, Tensor};
use tensorplay_autograd::TensorAutograd;

/// A tensor that is learnt: a leaf that requires a gradient (`torch.nn.Parameter`).
#[derive(Clone, Debug)]
pub struct Parameter(Tensor);

impl Parameter {
    /// Makes a parameter of a tensor, whose memory it shares. A leaf becomes the parameter itself, and from here on
    /// requires its gradient.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) for a dtype without gradients.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        let leaf = if tensor.is_leaf() { tensor.clone() } else { tensor.detach()? };
        leaf.requires_grad_(true).map(Self)
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

/// A tensor that is part of a module's state and is not learnt, as a running mean (`register_buffer`).
#[derive(Clone, Debug)]
pub struct Buffer(Tensor);

impl Buffer {
    /// Makes a buffer of a tensor.
    pub fn new(tensor: Tensor) -> Self {
        Self(tensor)
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

macro_rules! as_tensor {
    ($($Type:ident)*) => {$(
        impl Deref for $Type {
            type Target = Tensor;

            fn deref(&self) -> &Tensor {
                &self.0
            }
        }

        impl $Type {
            /// Puts another tensor in its place; handles elsewhere stay with the old one.
            pub fn replace(&mut self, tensor: Tensor) {
                self.0 = tensor;
            }
        }
    )*};
}

as_tensor!(Parameter Buffer);

/// Whether a module is being trained: what `train` and `eval` switch. A new one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training(pub bool);

impl Default for Training {
    fn default() -> Self {
        Self(true)
    }
}
