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
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aten::Result;
use c10_core::Stream;
use c10_core::shared::{Shared, SharedAny, WeakShared};

pub use edge::Edge;
pub(crate) use garbage::{Garbage, collect};
pub(crate) use hooks::NodeHooks;
pub(crate) use input_meta::InputMeta;

use crate::anomaly::{self, Origin};
use crate::engine::current_stream;
use crate::few::{Few, OneOrMany};
use crate::formula::{Formula, FormulaBody};
use crate::gradients::Gradients;

/// A step of the backward pass: a shared handle.
#[derive(Clone)]
pub struct Node(Shared<NodeCell>);

/// A handle that does not keep the node alive.
#[derive(Clone, Default)]
pub(crate) struct WeakNode(Option<WeakShared<NodeCell>>);

/// What a kind of node does.
pub(crate) trait Apply: Any + Send + Sync {
    /// The name, as `MulBackward0`.
    fn name(&self) -> &str;

    /// The gradients of the inputs, one for each edge, from those of the outputs. With `keep` it will be asked
    /// again; without, what it saved is given up.
    fn apply(&self, node: &Node, gradients: Gradients, keep: bool) -> Result<Gradients>;

    /// Moves out what could hold the last handle on another node, when the node ends.
    fn take_garbage(&mut self, garbage: &mut Vec<Garbage>);

    /// For those who know the kind.
    fn as_any(&self) -> &dyn Any;
}

pub(crate) type Edges = Few<Option<Edge>>;
pub(crate) type Inputs = OneOrMany<InputMeta>;

struct NodeCell {
    sequence: u64,
    topological: u64,
    stream: Option<Stream>,
    edges: Edges,
    inputs: Inputs,
    hooks: OnceLock<Box<NodeHooks>>,
    origin: Option<Box<Origin>>,
    body: Body,
}

/// What a node does. Almost all run a formula.
enum Body {
    Formula(FormulaBody),
    Other(Box<dyn Apply>),
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
    pub(crate) sequence: u64,
    pub(crate) edges: Edges,
    pub(crate) inputs: Inputs,
    pub(crate) body: B,
}

impl<B: Apply> NewNode<B> {
    pub(crate) fn make(self) -> Node {
        let Self { sequence, edges, inputs, body } = self;
        let body = Body::Other(Box::new(body));
        let (topological, stream) = (topological_above(&edges), stream_of(&inputs));
        let (hooks, origin) = (OnceLock::new(), Origin::here());
        Node(Shared::new(|| NodeCell { sequence, topological, stream, edges, inputs, hooks, origin, body }))
    }
}

/// The longest way to a leaf of a node with these edges.
#[inline]
fn topological_above(edges: &[Option<Edge>]) -> u64 {
    edges.iter().flatten().map(|edge| edge.node.topological() + 1).max().unwrap_or(0)
}

/// The stream on which results like these are computed, if they are on a device with streams.
#[inline]
fn stream_of(inputs: &[InputMeta]) -> Option<Stream> {
    inputs.iter().find_map(|input| current_stream(input.device))
}

/// The node of a call that is being recorded, which nobody else knows of.
///
/// It is there before the call, in the place where it stays, and is filled bit by bit: nothing of it is moved.
pub(crate) struct Draft(Node);

impl Draft {
    /// A node of a formula, to which `fill` adds its edges. It calls nothing of a user's, which could panic.
    #[inline(always)]
    pub(crate) fn new<R>(
        formula: &'static Formula,
        fill: impl FnOnce(&mut NewEdges<'_>, &mut FormulaBody) -> R,
    ) -> (Self, R) {
        let sequence = next_sequence();
        // All of it is constants, so that it is made in its place: see Note [Made in place].
        let make = || NodeCell {
            sequence,
            topological: 0,
            stream: None,
            edges: Edges::None,
            inputs: Inputs::default(),
            hooks: OnceLock::new(),
            origin: None,
            body: Body::Formula(FormulaBody::new(formula)),
        };
        let (node, result) = Shared::new_with(make, |cell| {
            let mut edges = NewEdges { edges: &mut cell.edges, topological: &mut cell.topological };
            let result = fill(&mut edges, cell.body.as_formula_mut());
            if anomaly::is_enabled() {
                cell.origin = Origin::here();
            }
            result
        });
        (Self(Node(node)), result)
    }

    #[inline]
    fn cell(&mut self) -> &mut NodeCell {
        Shared::get_mut(&mut self.0.0).expect("a draft gives out no handles")
    }

    /// What the formula keeps, to be filled.
    #[inline]
    pub(crate) fn body(&mut self) -> &mut FormulaBody {
        self.cell().body.as_formula_mut()
    }

    /// The node. `inputs` are what the gradients that it takes are like.
    #[inline]
    pub(crate) fn finish(mut self, inputs: impl FnOnce() -> Inputs) -> Node {
        let cell = self.cell();
        // An empty list need not end.
        std::mem::forget(std::mem::replace(&mut cell.inputs, inputs()));
        cell.stream = stream_of(&cell.inputs);
        self.0
    }
}

/// The edges of a node that is being made, and its longest way to a leaf.
pub(crate) struct NewEdges<'n> {
    edges: &'n mut Edges,
    topological: &'n mut u64,
}

impl NewEdges<'_> {
    #[inline]
    pub(crate) fn push(&mut self, edge: Option<Edge>) {
        if let Some(edge) = &edge {
            *self.topological = (*self.topological).max(edge.node.topological() + 1);
        }
        self.edges.push(edge);
    }
}

impl Body {
    #[inline]
    fn as_formula_mut(&mut self) -> &mut FormulaBody {
        match self {
            Self::Formula(body) => body,
            Self::Other(_) => unreachable!("a draft runs a formula"),
        }
    }
}

impl Node {
    /// Whether this is the only handle. Stale at once if others clone it.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        Shared::strong_count(&self.0) == 1
    }

    /// The name, as `MulBackward0`.
    pub fn name(&self) -> &str {
        match &self.0.body {
            Body::Formula(body) => body.name(),
            Body::Other(body) => body.name(),
        }
    }

    /// Larger for nodes that were made later; the largest number for accumulators (`_sequence_nr`).
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// The longest way to a leaf (`topological_nr`).
    #[inline]
    pub fn topological(&self) -> u64 {
        self.0.topological
    }

    /// Where each gradient goes; `None` where none is wanted (`next_functions`).
    #[inline]
    pub fn next_functions(&self) -> &[Option<Edge>] {
        &self.0.edges
    }

    /// How many gradients it takes: one for each result of the call that it stands for.
    #[inline]
    pub fn num_inputs(&self) -> usize {
        self.0.inputs.len()
    }

    #[inline]
    pub(crate) fn inputs(&self) -> &[InputMeta] {
        &self.0.inputs
    }

    /// The stream on which it runs; `None` for nodes of the host.
    #[inline]
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.0.stream
    }

    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_deref()
    }

    #[inline]
    pub(crate) fn hooks(&self) -> Option<&NodeHooks> {
        self.0.hooks.get().map(|hooks| &**hooks)
    }

    pub(crate) fn hooks_or_init(&self) -> &NodeHooks {
        self.0.hooks.get_or_init(Box::default)
    }

    /// Makes `given` the gradients of its inputs, from those that it takes, of which it may take some out. With `keep`
    /// it will be asked again; without, what it saved is given up.
    #[inline(always)]
    pub(crate) fn apply(&self, taken: &mut Gradients, keep: bool, given: &mut Gradients) -> Result<()> {
        match &self.0.body {
            Body::Formula(body) => body.apply(self, taken, keep, given),
            Body::Other(body) => {
                *given = body.apply(self, std::mem::take(taken), keep)?;
                Ok(())
            }
        }
    }

    pub(crate) fn body<B: Apply>(&self) -> Option<&B> {
        match &self.0.body {
            Body::Formula(_) => None,
            Body::Other(body) => body.as_any().downcast_ref(),
        }
    }

    /// Whether two handles are of one node.
    pub fn is_same(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    /// Tells nodes that are alive apart.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }

    /// What tensors have in their place for what [made them](aten::Tensor::made_by).
    #[inline]
    pub(crate) fn into_any(self) -> SharedAny {
        self.0.into_any()
    }

    /// The node that a tensor has there.
    #[inline]
    pub(crate) fn from_any(node: &SharedAny) -> Option<Self> {
        node.downcast().map(Self)
    }

    pub(crate) fn downgrade(&self) -> WeakNode {
        WeakNode(Some(Shared::downgrade(&self.0)))
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
