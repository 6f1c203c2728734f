//! What a function gives that is differentiable once: gradients whose own backward step is an error.

use aten::{Result, Tensor};

use crate::gradients::Gradients;
use crate::node::{Edge, refusal};
use crate::saved;
use crate::view_track::set_result;

/// The same gradients, which nobody can differentiate (`DelayedError`).
///
/// Differs from PyTorch: there it is done when a gradient that the function took requires one. What it saved may
/// require one too, and the second derivative would be missing in silence.
pub(super) fn refuse_again(given: Gradients) -> Result<Gradients> {
    let node = refusal::once_differentiable(given.iter().flatten());
    let mut at = 0;
    let mut refused = |gradient: Tensor| -> Result<Tensor> {
        let mut alias = saved::alias(&gradient)?;
        set_result(&mut alias, Edge { node: node.clone(), input: at });
        at += 1;
        Ok(alias)
    };
    given.into_iter().map(|gradient| gradient.map(&mut refused).transpose()).collect()
}
