//! [`AutogradMeta`]: all that this crate knows of autograd (`c10::AutogradMetaInterface`).

use std::any::Any;
use std::fmt::Debug;

/// What an autograd crate keeps with a tensor. A tensor without one needs no gradient.
pub trait AutogradMeta: Any + Debug + Send + Sync {
    /// Whether operators on the tensor are to be recorded.
    fn requires_grad(&self) -> bool;

    /// For the crate whose type this is.
    fn as_any(&self) -> &dyn Any;
}
