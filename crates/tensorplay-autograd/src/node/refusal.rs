//! Nodes that have no gradient to give, and say why: a backward call that meets one is refused.

use aten::{Error, Result, Tensor};

use super::{Apply, Edges, Garbage, InputMeta, Inputs, NewNode, Node, next_sequence};
use crate::gradients::Gradients;

/// Why there is no gradient.
enum Refusal {
    /// The operator has no formula.
    NoFormula(&'static str),
    /// What the gradient needs of the node of this name could not be kept.
    Lost(&'static str),
    /// A function that is differentiable once gave it.
    OnceDifferentiable,
}

/// Of what an operator made that has no formula.
pub(crate) fn no_formula(operator: &'static str, sequence: u64, edges: Edges, results: &[Tensor]) -> Node {
    NewNode {
        sequence,
        edges,
        inputs: results.iter().map(InputMeta::of).collect(),
        body: Refusal::NoFormula(operator),
    }
    .make()
}

/// Of a tensor that was changed in place by an operator that then could not keep what its gradient needs.
pub(crate) fn lost(name: &'static str, changed: &Tensor) -> Node {
    NewNode {
        sequence: next_sequence(),
        edges: Edges::from_iter([None]),
        inputs: Inputs::One(InputMeta::of(changed)),
        body: Refusal::Lost(name),
    }
    .make()
}

/// Of gradients that a function gave which is differentiable once.
pub(crate) fn once_differentiable<'t>(given: impl Iterator<Item = &'t Tensor>) -> Node {
    NewNode {
        sequence: next_sequence(),
        edges: Edges::None,
        inputs: given.map(InputMeta::of).collect(),
        body: Refusal::OnceDifferentiable,
    }
    .make()
}

impl Apply for Refusal {
    fn name(&self) -> &str {
        match self {
            Self::NoFormula(_) => "NotImplemented",
            Self::Lost(name) => name,
            Self::OnceDifferentiable => "Error",
        }
    }

    fn apply(&self, node: &Node, _: Gradients, _: bool) -> Result<Gradients> {
        Err(match self {
            Self::NoFormula(name) if name.starts_with("aten::") => {
                Error::not_implemented(format!("derivative for {name} is not implemented"))
            }
            Self::NoFormula(name) => Error::not_implemented(format!(
                "Trying to backward through {name} but no autograd formula was registered. Please use \
                 register_autograd to add one."
            )),
            Self::Lost(_) => Error::invalid_argument(format!(
                "{} changed a tensor in place and then failed to keep what its gradient needs: there is no gradient",
                node.name()
            )),
            Self::OnceDifferentiable => Error::invalid_argument(
                "trying to differentiate twice a function that was marked with @once_differentiable",
            ),
        })
    }

    fn take_garbage(&mut self, _: &mut Vec<Garbage>) {}

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
