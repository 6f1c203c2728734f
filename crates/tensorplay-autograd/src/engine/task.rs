//! [`GraphTask`]: one backward call, and how far it is (`torch::autograd::GraphTask`).

use std::cell::Cell;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use aten::{Result, Tensor};
use smallvec::SmallVec;

use super::buffer::InputBuffer;
use super::ready::Ready;
use crate::gradients::Gradients;
use crate::node::{Edge, Node};

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The backward call that this thread works for; 0 outside of one.
pub(crate) fn current_task_id() -> u64 {
    CURRENT.get()
}

/// One call.
pub(super) struct GraphTask {
    pub(super) id: u64,
    pub(super) keep_graph: bool,
    pub(super) create_graph: bool,
    /// Which nodes are needed and whose gradients are wanted; `None` when all are.
    plan: Option<Plan>,
    pending: Map<Pending>,
    ready: BinaryHeap<Ready>,
    order: u64,
    pub(super) captured: Vec<Option<Tensor>>,
}

/// A node that waits.
#[derive(Debug)]
struct Pending {
    /// How many gradients are still to come.
    dependencies: usize,
    buffer: Option<InputBuffer>,
}

#[derive(Debug, Default)]
struct Plan {
    needed: Set,
    captures: Map<SmallVec<[Capture; 1]>>,
}

/// Which gradient of a node goes to which place of the results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capture {
    pub(super) input: usize,
    pub(super) result: usize,
}

/// Addresses of nodes are as good as hashes once their low bits, which are all alike, are mixed.
#[derive(Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Map<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;
type Set = HashSet<usize, BuildHasherDefault<AddressHasher>>;

/// What of the graph a call needs.
pub(super) struct Wanted<'a> {
    /// The places whose gradients are results.
    pub(super) outputs: &'a [Edge],
    /// Of them, those whose node runs itself, and adds to a leaf.
    pub(super) runs: &'a dyn Fn(usize) -> bool,
}

impl GraphTask {
    /// The task of a graph below its roots.
    pub(super) fn new(
        roots: &[Edge],
        wanted: Option<Wanted<'_>>,
        keep_graph: bool,
        create_graph: bool,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let outputs = wanted.as_ref().map_or(&[][..], |wanted| wanted.outputs);
        let least = outputs.iter().map(|edge| edge.node.topological()).min().unwrap_or(0);
        let (pending, nodes) = count_dependencies(roots, least, wanted.is_some());
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            keep_graph,
            create_graph,
            captured: vec![None; outputs.len()],
            plan: wanted.map(|wanted| Plan::new(&wanted, nodes)),
            pending,
            ready: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Makes this the call that the thread works for, until the guard is dropped.
    pub(super) fn enter(&self) -> Entered {
        Entered { before: CURRENT.replace(self.id) }
    }

    /// The next node to run.
    pub(super) fn pop(&mut self) -> Option<Ready> {
        self.ready.pop()
    }

    /// Which gradients of the node are results, and whether it runs.
    pub(super) fn asked_of(&self, node: &Node) -> (SmallVec<[Capture; 1]>, bool) {
        match &self.plan {
            None => (SmallVec::new(), true),
            Some(plan) => {
                let address = node.address();
                (plan.captures.get(&address).cloned().unwrap_or_default(), plan.needed.contains(&address))
            }
        }
    }

    /// Whether all nodes run.
    pub(super) fn runs_all(&self) -> bool {
        self.plan.is_none()
    }

    /// Gives a root its gradient.
    pub(super) fn seed(&mut self, roots: &[Edge], gradients: SmallVec<[Option<Tensor>; 1]>) -> Result<()> {
        for (root, gradient) in roots.iter().zip(gradients) {
            self.deliver(root, gradient)?;
        }
        Ok(())
    }

    /// Passes on what a node gave. Nodes that then have all they wait for are ready.
    pub(super) fn distribute(&mut self, node: &Node, given: Gradients) -> Result<()> {
        for (edge, gradient) in node.next_functions().iter().zip(given) {
            if let Some(edge) = edge {
                self.deliver(edge, gradient)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, edge: &Edge, gradient: Option<Tensor>) -> Result<()> {
        let node = &edge.node;
        // Nodes that are older than all that is wanted were not counted.
        let Some(pending) = self.pending.get_mut(&node.address()) else { return Ok(()) };
        pending.dependencies -= 1;
        let is_ready = pending.dependencies == 0;
        if let Some(gradient) = gradient {
            let buffer = pending.buffer.get_or_insert_with(|| InputBuffer::new(node.num_inputs()));
            buffer.add(edge.input, gradient)?;
        }
        if is_ready {
            let buffer = pending.buffer.take().unwrap_or_else(|| InputBuffer::new(node.num_inputs()));
            self.push(node.clone(), buffer);
        }
        Ok(())
    }

    fn push(&mut self, node: Node, buffer: InputBuffer) {
        if let Some(plan) = &self.plan {
            let address = node.address();
            if !plan.needed.contains(&address) && !plan.captures.contains_key(&address) {
                return;
            }
        }
        self.order += 1;
        self.ready.push(Ready { node, buffer, order: self.order });
    }
}

impl Plan {
    /// Nodes in order of age give: needed is what leads to something needed.
    fn new(wanted: &Wanted<'_>, mut nodes: Vec<Node>) -> Self {
        let mut plan = Self::default();
        for (result, edge) in wanted.outputs.iter().enumerate() {
            let address = edge.node.address();
            if (wanted.runs)(result) {
                plan.needed.insert(address);
            } else {
                plan.captures.entry(address).or_default().push(Capture { input: edge.input, result });
            }
        }
        nodes.sort_unstable_by_key(Node::topological);
        for node in &nodes {
            let leads = node.next_functions().iter().flatten().any(|edge| {
                let address = edge.node.address();
                plan.needed.contains(&address) || plan.captures.contains_key(&address)
            });
            if leads {
                plan.needed.insert(node.address());
            }
        }
        plan
    }
}

/// How many gradients each node below the roots waits for; with the nodes themselves, where they are asked for.
fn count_dependencies(roots: &[Edge], least: u64, with_nodes: bool) -> (Map<Pending>, Vec<Node>) {
    let mut pending: Map<Pending> = Map::default();
    let mut nodes = Vec::new();
    let mut stack: Vec<&Node> = Vec::new();
    let mut count = |edge: &Edge| -> bool {
        let entry = pending.entry(edge.node.address());
        let is_new = matches!(entry, std::collections::hash_map::Entry::Vacant(_));
        entry.or_insert(Pending { dependencies: 0, buffer: None }).dependencies += 1;
        is_new
    };
    for root in roots {
        if count(root) {
            stack.push(&root.node);
        }
    }
    while let Some(node) = stack.pop() {
        if with_nodes {
            nodes.push(node.clone());
        }
        for edge in node.next_functions().iter().flatten() {
            if edge.node.topological() >= least && count(edge) {
                stack.push(&edge.node);
            }
        }
    }
    (pending, nodes)
}

/// Says which call a thread works for.
pub(super) struct Entered {
    before: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
