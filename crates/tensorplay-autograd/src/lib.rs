//! Reverse-mode differentiation of [`aten`]'s tensors: what `torch.autograd` is to PyTorch.

#![forbid(unsafe_code)]

mod mode;
mod meta;
mod node;
mod gradients;
mod few;
mod saved;
mod saved_hooks;
mod unpacked;
mod hooks;
mod view_track;
mod copy_slices;
mod accumulate;
pub mod anomaly;
mod formula;
mod formulas;
mod kernel;
mod function;
mod custom_op;
pub mod checkpoint;
pub mod engine;
mod tensor;
mod gradcheck;

pub use aten::dispatch::local::{InferenceModeGuard, is_inference_mode};
pub use checkpoint::checkpoint;
pub use custom_op::{CustomOpAutograd, SetupContext};
pub use engine::{BackwardOptions, GradOptions, backward, backward_with, grad, grad_with, queue_callback};
pub use function::{BackwardContext, ForwardContext, Function, GradOutputs};
pub use gradcheck::{GradcheckOptions, gradcheck, gradgradcheck, gradgradcheck_with};
pub use hooks::{HookHandle, MultiGradHandle, register_multi_grad_hook, register_multi_grad_hook_any};
pub use mode::{GradModeGuard, enable_grad, is_grad_enabled, no_grad, set_grad_enabled};
pub use node::{Edge, Node};
pub use saved_hooks::{SavedTensorHooks, with_saved_tensor_hooks};
pub use tensor::TensorAutograd;

use std::sync::OnceLock;

/// Registers the derivatives of all operators with the process's dispatcher. Every function and method of this crate
/// that could need them calls it; a program that only runs operators on tensors of its own making need not.
///
/// # Errors
/// [`ErrorKind::Registration`](aten::ErrorKind::Registration) when something else has registered kernels for the
/// autograd keys of the same operators. Nothing is registered then, in this call or later ones.
pub fn init() -> aten::Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| kernel::register().map_err(|error| error.to_string()));
    done.clone().map_err(|text| aten::Error::new(aten::ErrorKind::Registration, text))
}
