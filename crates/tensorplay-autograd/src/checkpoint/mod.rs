//! Checkpoints: a part of a computation saves nothing but its inputs, and is done again when its gradients are
//! computed (`torch.utils.checkpoint` with `use_reentrant=False`).
//!
//! // Note [How a checkpoint works]
//! The function runs under saved-tensor hooks that keep, in the place of each tensor, a holder with the
//! tensor's number. The first holder that a backward call asks for has the function run again, on its saved inputs,
//! under hooks that give the holders their tensors. Each is gone with its use, and the run ends with the last tensor
//! that is needed. Inputs are saved as any tensor is: those of a checkpoint within another are given by that one's
//! own run.

mod context;
mod frame;
mod hooks;
mod random;
mod selective;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use aten::dispatch::local::is_inference_mode;
use aten::random::Generator;
use aten::{Result, Tensor};

pub use context::{CheckpointContext, Contexts};
pub use selective::{CheckpointPolicy, selective};

use crate::mode::is_grad_enabled;
use crate::saved::SavedTensor;
use crate::saved_hooks::{self, with_saved_tensor_hooks};
use context::within;
use frame::Frame;
use hooks::FirstRun;

/// What [`checkpoint_with`] may be told.
#[derive(Clone)]
pub struct CheckpointOptions {
    /// The function draws the same random numbers when it runs again, and what is drawn after the backward call is
    /// what would have been drawn without a checkpoint.
    pub preserve_rng_state: bool,
    /// The second run ends with the last tensor that is needed.
    pub early_stop: bool,
    /// What is compared of the two runs.
    pub determinism_check: DeterminismCheck,
    /// What surrounds the first run and the others (`context_fn`).
    pub contexts: Option<Contexts>,
}

/// What is compared of the two runs of a checkpoint (`determinism_check`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeterminismCheck {
    /// Shapes, dtypes and devices of what was saved.
    #[default]
    Default,
    /// The count of what was saved alone.
    None,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            preserve_rng_state: true,
            early_stop: true,
            determinism_check: DeterminismCheck::Default,
            contexts: None,
        }
    }
}

impl fmt::Debug for CheckpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointOptions")
            .field("preserve_rng_state", &self.preserve_rng_state)
            .field("early_stop", &self.early_stop)
            .field("determinism_check", &self.determinism_check)
            .field("contexts", &self.contexts.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Calls `f`, keeping of it the inputs alone until its gradients are computed. Then it is called again: it must do
/// the same. What it holds besides, as parameters, is used as it is then.
///
/// ```
/// use aten::{Result, Tensor};
/// use tensorplay_autograd::{TensorAutograd, checkpoint::checkpoint};
///
/// let x = Tensor::from_elements(&[1.0, 2.0])?.requires_grad_(true)?;
/// let cube = |inputs: &[Tensor]| inputs[0].mul(&inputs[0])?.mul(&inputs[0]);
/// let y = checkpoint(cube, &[&x])?;
/// y.narrow(0, 1, 1)?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [0.0, 12.0]);
/// # Ok::<(), aten::Error>(())
/// ```
///
/// # Errors
/// What `f` returns. The backward call fails when the second run saves another number of tensors than the first, or
/// other ones, and when an input was changed in place meanwhile.
pub fn checkpoint<R>(
    f: impl Fn(&[Tensor]) -> Result<R> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<R> {
    checkpoint_with(f, inputs, CheckpointOptions::default())
}

/// As [`checkpoint`], with options.
///
/// # Errors
/// As there.
pub fn checkpoint_with<R>(
    f: impl Fn(&[Tensor]) -> Result<R> + Send + Sync + 'static,
    inputs: &[&Tensor],
    options: CheckpointOptions,
) -> Result<R> {
    crate::init()?;
    let given: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    if !is_grad_enabled() || is_inference_mode() {
        return f(&given);
    }
    let saved = inputs.iter().map(|input| SavedTensor::argument(input)).collect::<Result<Vec<_>>>()?;
    saved_hooks::check_stop()?;
    let (first, again) = options.contexts.map_or((None, None), |make| {
        let (first, again) = make();
        (Some(first), Some(again))
    });
    let f = Arc::new(f);
    let frame = Frame::new(
        {
            let f = Arc::clone(&f);
            Box::new(move |inputs| f(inputs).map(drop))
        },
        saved,
        frame::Settings {
            random: options.preserve_rng_state.then(|| Generator::default_cpu().state()),
            early_stop: options.early_stop,
            checks_metadata: options.determinism_check == DeterminismCheck::Default,
            context: again,
        },
    );
    with_saved_tensor_hooks(Arc::new(FirstRun(frame)), || within(first.as_deref(), || f(&given)))?
}
