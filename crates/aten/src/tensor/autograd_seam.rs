//! [`AutogradMeta`]: all that this crate knows of autograd (`c10::AutogradMetaInterface`).
//!
//! A tensor has two places for it. The results of recorded calls are told [what made them](super::Tensor::made_by), a
//! handle and a number, when they are made. All else is kept in an [`AutogradMeta`], which few tensors have; from then
//! on what it says counts, and what made the tensor no more.

use std::any::Any;
use std::fmt::Debug;

/// What an autograd crate keeps with a tensor. One without it, which nothing made, needs no gradient.
pub trait AutogradMeta: Any + Debug + Send + Sync {
    /// Whether operators on the tensor are to be recorded.
    fn requires_grad(&self) -> bool;

    /// For the crate whose type this is.
    fn as_any(&self) -> &dyn Any;
}
