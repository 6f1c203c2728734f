//! [`InputBuffer`]: the gradients that a node has so far (`torch::autograd::InputBuffer`).

use aten::{Result, Tensor};
use smallvec::smallvec;

use crate::accumulate::is_sole;
use crate::gradients::Gradients;
use crate::mode::is_grad_enabled;

/// A slot for each gradient that the node takes.
#[derive(Debug, Default)]
pub(super) struct InputBuffer(Gradients);

impl InputBuffer {
    pub(super) fn new(count: usize) -> Self {
        Self(smallvec![None; count])
    }

    /// Adds a gradient.
    pub(super) fn add(&mut self, input: usize, gradient: Tensor) -> Result<()> {
        let slot = &mut self.0[input];
        *slot = Some(match slot.take() {
            None => gradient,
            Some(before) => sum(before, gradient)?,
        });
        Ok(())
    }

    pub(super) fn into_gradients(self) -> Gradients {
        self.0
    }
}

/// The sum, in the memory of one of them where nobody else has that.
fn sum(before: Tensor, gradient: Tensor) -> Result<Tensor> {
    let may_be_written = |tensor: &Tensor| tensor.is_non_overlapping_and_dense() && is_sole(tensor);
    if !is_grad_enabled() {
        for (own, other) in [(&before, &gradient), (&gradient, &before)] {
            if may_be_written(own) {
                own.add_(other)?;
                return Ok(own.clone());
            }
        }
    }
    before.add(&gradient)
}
