//! [`Node`]: a step of the backward pass (`torch::autograd::Node`).
//!
//! A node takes the gradients of what a call made, and gives those of what the call took, which go along its
//! [edges](Edge) to the nodes that made these. Edges never change, and lead to older nodes only, so that graphs
//! have no cycles.

mod edge;
mod garbage;
mod hooks;
mod input_meta;
pub(crate) mod refusal;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use aten::Result;
use c10_core::Stream;
use c10_core::in_place::new_in_place;
use smallvec::SmallVec;

pub use edge::Edge;
pub(crate) use garbage::{Garbage, collect};
pub(crate) use hooks::NodeHooks;
pub(crate) use input_meta::InputMeta;

use crate::anomaly::Origin;
use crate::gradients::Gradients;

/// A step of the backward pass: a shared handle.
#[derive(Clone)]
pub struct Node(Arc<NodeCell<dyn Apply>>);

/// A handle that does not keep the node alive.
#[derive(Clone, Default)]
pub(crate) struct WeakNode(Option<Weak<NodeCell<dyn Apply>>>);

/// What a kind of node does.
pub(crate) trait Apply: Any + Send + Sync {
    /// The gradients of the inputs, one for each edge, from those of the outputs. With `keep` it will be asked
    /// again; without, what it saved is given up.
    fn apply(&self, node: &Node, gradients: Gradients, keep: bool) -> Result<Gradients>;

    /// Moves out what could hold the last handle on another node, when the node ends.
    fn take_garbage(&mut self, garbage: &mut Vec<Garbage>);

    /// For those who know the kind.
    fn as_any(&self) -> &dyn Any;
}

struct NodeCell<B: Apply + ?Sized> {
    header: Header,
    body: B,
}

struct Header {
    sequence: u64,
    topological: u64,
    name: NodeName,
    edges: SmallVec<[Option<Edge>; 2]>,
    inputs: SmallVec<[InputMeta; 1]>,
    hooks: OnceLock<Box<NodeHooks>>,
    origin: Option<Box<Origin>>,
}

/// A name that is known when the program is built, or one that a user gives.
#[derive(Clone, Debug)]
pub(crate) enum NodeName {
    Static(&'static str),
    Made(Arc<str>),
}

impl NodeName {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Made(name) => name,
        }
    }
}

/// All nodes of the process are numbered as they are made, across threads: the engine runs the newest first.
///
/// Differs from PyTorch: there each thread counts for itself, and the order between threads is arbitrary.
pub(crate) fn next_sequence() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The sequence number of accumulators: they run before all others that are ready.
pub(crate) const FIRST_IN_LINE: u64 = u64::MAX;

/// What a node is made of.
pub(crate) struct NewNode<B> {
    pub(crate) name: NodeName,
    pub(crate) sequence: u64,
    pub(crate) edges: SmallVec<[Option<Edge>; 2]>,
    pub(crate) inputs: SmallVec<[InputMeta; 1]>,
    pub(crate) body: B,
}

impl<B: Apply> NewNode<B> {
    pub(crate) fn make(self) -> Node {
        Node::made_of(topological_above(&self.edges), || self)
    }
}

/// The longest way to a leaf of a node with these edges.
#[inline]
pub(crate) fn topological_above(edges: &[Option<Edge>]) -> u64 {
    edges.iter().flatten().map(|edge| edge.node.topological() + 1).max().unwrap_or(0)
}

impl Node {
    /// A node of what `make` gives, in the place where it stays: see Note [Made in place] in `c10_core::in_place`.
    #[inline(always)]
    pub(crate) fn made_of<B: Apply>(topological: u64, make: impl FnOnce() -> NewNode<B>) -> Self {
        let origin = Origin::here();
        Self(new_in_place(|| {
            let NewNode { name, sequence, edges, inputs, body } = make();
            let header =
                Header { sequence, topological, name, edges, inputs, hooks: OnceLock::new(), origin };
            NodeCell { header, body }
        }))
    }

    /// Whether this is the only handle. Stale at once if others clone it.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The name, as `MulBackward0`.
    pub fn name(&self) -> &str {
        self.0.header.name.as_str()
    }

    /// Larger for nodes that were made later; the largest number for accumulators (`_sequence_nr`).
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.0.header.sequence
    }

    /// The longest way to a leaf (`topological_nr`).
    #[inline]
    pub fn topological(&self) -> u64 {
        self.0.header.topological
    }

    /// Where each gradient goes; `None` where none is wanted (`next_functions`).
    #[inline]
    pub fn next_functions(&self) -> &[Option<Edge>] {
        &self.0.header.edges
    }

    /// How many gradients it takes: one for each result of the call that it stands for.
    #[inline]
    pub fn num_inputs(&self) -> usize {
        self.0.header.inputs.len()
    }

    #[inline]
    pub(crate) fn inputs(&self) -> &[InputMeta] {
        &self.0.header.inputs
    }

    /// The stream on which it runs; `None` for nodes of the host.
    #[inline]
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.inputs().iter().find_map(|input| input.stream)
    }

    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.0.header.origin.as_deref()
    }

    #[inline]
    pub(crate) fn hooks(&self) -> Option<&NodeHooks> {
        self.0.header.hooks.get().map(|hooks| &**hooks)
    }

    pub(crate) fn hooks_or_init(&self) -> &NodeHooks {
        self.0.header.hooks.get_or_init(Box::default)
    }

    pub(crate) fn apply(&self, gradients: Gradients, keep: bool) -> Result<Gradients> {
        self.0.body.apply(self, gradients, keep)
    }

    pub(crate) fn body<B: Apply>(&self) -> Option<&B> {
        self.0.body.as_any().downcast_ref()
    }

    /// Whether two handles are of one node.
    pub fn is_same(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    /// Tells nodes that are alive apart.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }

    pub(crate) fn downgrade(&self) -> WeakNode {
        WeakNode(Some(Arc::downgrade(&self.0)))
    }
}

impl WeakNode {
    pub(crate) fn upgrade(&self) -> Option<Node> {
        self.0.as_ref()?.upgrade().map(Node)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name())
    }
}
