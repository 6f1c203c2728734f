//! What a function gives that is differentiable once: gradients whose own backward step is an error.

use aten::{Error, Result, Tensor};
use smallvec::smallvec;

use crate::gradients::Gradients;
use crate::meta::Meta;
use crate::node::{Apply, Edge, Garbage, InputMeta, NewNode, Node, NodeName, next_sequence};
use crate::saved;

/// The same gradients, which nobody can differentiate (`DelayedError`).
///
/// Differs from PyTorch: there it is done when a gradient that the function took requires one. What it saved may
/// require one too, and the second derivative would be missing in silence.
pub(super) fn refuse_again(given: Gradients) -> Result<Gradients> {
    let node = NewNode {
        name: NodeName::Static("Error"),
        sequence: next_sequence(),
        edges: smallvec![],
        inputs: given.iter().flatten().map(InputMeta::of).collect(),
        body: Refusal,
    }
    .make();
    let mut at = 0;
    let mut refused = |gradient: Tensor| -> Result<Tensor> {
        let alias = saved::alias(&gradient)?;
        let edge = Edge { node: node.clone(), input: at };
        alias.autograd_meta_or_init(|| Box::new(Meta::of_result(edge)));
        at += 1;
        Ok(alias)
    };
    given.into_iter().map(|gradient| gradient.map(&mut refused).transpose()).collect()
}

struct Refusal;

impl Apply for Refusal {
    fn apply(&self, _: &Node, _: Gradients, _: bool) -> Result<Gradients> {
        Err(Error::invalid_argument(
            "trying to differentiate twice a function that was marked with @once_differentiable",
        ))
    }

    fn take_garbage(&mut self, _: &mut Vec<Garbage>) {}

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
