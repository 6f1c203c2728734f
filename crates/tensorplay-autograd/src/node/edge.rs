//! [`Edge`]: where a gradient goes.

use super::Node;

/// An input of a node: the gradient of which of its outputs (`torch::autograd::Edge`).
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node.
    pub node: Node,
    /// Which of the results that the node stands for.
    pub input: usize,
}

impl Edge {
    /// Whether two edges lead to the same place.
    pub fn is_same(&self, other: &Self) -> bool {
        self.input == other.input && self.node.is_same(&other.node)
    }
}
