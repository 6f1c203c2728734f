//! [`GraphTask`]: one backward call, and how far it is (`torch::autograd::GraphTask`).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use aten::Tensor;
use c10_core::{Device, Stream};
use smallvec::SmallVec;

use super::buffer::{Held, InputBuffer};
use super::ready::{Role, Turn};
use crate::node::{Edge, Node};

// Note [Nodes of one edge]
// A node that has one handle when the graph is walked, which is then the edge that it was come to by, waits for one
// gradient. It need not be remembered: what is not found later, when its gradient comes, is ready. That cannot be
// confused with a node that was come to by several edges, for each of those holds a handle until the call has ended.
// Where not all nodes are wanted, or somebody asks which are, all are remembered.

/// One call.
#[derive(Debug, Default)]
pub(super) struct GraphTask {
    pending: Map<Pending>,
    captures: Map<SmallVec<[Capture; 1]>>,
    /// Not all nodes are wanted.
    has_plan: bool,
    /// Only nodes that several edges may lead to are pending: see Note [Nodes of one edge].
    counts_shared: bool,
    /// How many nodes became ready.
    order: u64,
    pub(super) captured: Vec<Option<Tensor>>,
    /// Of leaves and results on devices, the streams that they are on.
    pub(super) leaves: Vec<(Stream, Option<Tensor>)>,
}

/// A node that waits.
#[derive(Debug)]
struct Pending {
    /// How many gradients are still to come.
    dependencies: u32,
    role: Role,
    buffer: Option<InputBuffer>,
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
pub(super) enum Wanted<'a> {
    /// All that its roots depend on.
    All,
    /// What leads to these places, where gradients are accumulated.
    Accumulated(&'a [Edge]),
    /// What leads to these places, whose gradients are results.
    Captured(&'a [Edge]),
}

/// What becomes of a gradient that a task is given.
pub(super) enum Offer {
    /// The task has it.
    Taken,
    /// The node has all that it waited for.
    Ready(Turn),
    /// There is one in its place: the sum is to be offered.
    Occupied { before: Held, gradient: Held },
}

impl GraphTask {
    /// The task of a graph below its roots, and the devices with streams that it is on.
    /// With `is_asked`, somebody will ask for [addresses](Self::addresses).
    pub(super) fn new(roots: &[Edge], wanted: &Wanted<'_>, is_asked: bool) -> (Self, SmallVec<[Device; 1]>) {
        let outputs = match wanted {
            Wanted::All => &[],
            Wanted::Accumulated(outputs) | Wanted::Captured(outputs) => *outputs,
        };
        let mut task = Self::default();
        let mut nodes = (!matches!(wanted, Wanted::All)).then(Vec::new);
        task.counts_shared = nodes.is_none() && !is_asked;
        let devices = task.count_dependencies(roots, least_topological(outputs), nodes.as_mut());
        if let Wanted::Captured(_) = wanted {
            task.captured = vec![None; outputs.len()];
        }
        if let Some(nodes) = nodes {
            task.plan(wanted, outputs, nodes);
        }
        (task, devices)
    }

    /// The addresses of the nodes that run, or whose gradients are results.
    pub(super) fn addresses(&self) -> impl Iterator<Item = usize> {
        let is_wanted = |pending: &Pending| pending.role.is_needed || pending.role.is_captured;
        self.pending.iter().filter(move |(_, pending)| is_wanted(pending)).map(|(address, _)| *address)
    }

    /// Which gradients of a node are results.
    pub(super) fn captures_of(&self, node: &Node) -> SmallVec<[Capture; 1]> {
        self.captures.get(&node.address()).cloned().unwrap_or_default()
    }

    /// A bit for each of the first edges of a node that leads to nothing wanted.
    pub(super) fn unwanted_of(&self, node: &Node) -> u64 {
        if !self.has_plan {
            return 0;
        }
        let is_wanted = |edge: &Edge| {
            let pending = self.pending.get(&edge.node.address());
            pending.is_some_and(|pending| pending.role.is_needed || pending.role.is_captured)
        };
        let edges = node.next_functions().iter().take(64).enumerate();
        edges.fold(0, |bits, (at, edge)| match edge {
            Some(edge) if !is_wanted(edge) => bits | 1 << at,
            _ => bits,
        })
    }

    /// Gives a node one of the gradients that it waits for.
    #[inline]
    pub(super) fn offer(&mut self, edge: &Edge, gradient: Option<Held>) -> Offer {
        if self.waits_for_one(&edge.node) {
            return self.ready_at_once(edge, gradient);
        }
        self.offer_counted(edge, gradient)
    }

    /// Whether a node that a gradient has come to waits for no other: see Note [Nodes of one edge].
    #[inline]
    pub(super) fn waits_for_one(&self, node: &Node) -> bool {
        self.counts_shared && node.is_sole()
    }

    fn offer_counted(&mut self, edge: &Edge, gradient: Option<Held>) -> Offer {
        let node = &edge.node;
        let Some(pending) = self.pending.get_mut(&node.address()) else {
            // Nodes that are older than all that is wanted were not counted.
            return if self.counts_shared { self.ready_at_once(edge, gradient) } else { Offer::Taken };
        };
        let Role { is_needed, is_captured } = pending.role;
        if !is_needed && !is_captured {
            return Offer::Taken;
        }
        if let Some(gradient) = gradient {
            let buffer = pending.buffer.get_or_insert_with(|| InputBuffer::new(node.num_inputs()));
            if let Some(before) = buffer.take(edge.input) {
                return Offer::Occupied { before, gradient };
            }
            buffer.put(edge.input, gradient);
        }
        pending.dependencies -= 1;
        if pending.dependencies > 0 {
            return Offer::Taken;
        }
        let buffer = pending.buffer.take().unwrap_or_else(|| InputBuffer::new(node.num_inputs()));
        self.order += 1;
        Offer::Ready(Turn { buffer, order: self.order, role: pending.role })
    }

    #[inline]
    fn ready_at_once(&mut self, edge: &Edge, gradient: Option<Held>) -> Offer {
        let buffer = InputBuffer::of(edge.node.num_inputs(), edge.input, gradient);
        self.order += 1;
        let role = Role { is_needed: true, is_captured: false };
        Offer::Ready(Turn { buffer, order: self.order, role })
    }

    /// How many gradients each node below the roots waits for; with the nodes themselves, where they are asked for.
    fn count_dependencies(
        &mut self,
        roots: &[Edge],
        least: u64,
        mut nodes: Option<&mut Vec<Node>>,
    ) -> SmallVec<[Device; 1]> {
        let mut devices = SmallVec::new();
        let mut stack: Vec<&Node> = Vec::new();
        let counts_shared = self.counts_shared;
        let mut count = |edge: &Edge| -> bool {
            if counts_shared && edge.node.is_sole() {
                return true;
            }
            let role = Role { is_needed: true, is_captured: false };
            let new = || Pending { dependencies: 0, role, buffer: None };
            let pending = self.pending.entry(edge.node.address()).or_insert_with(new);
            pending.dependencies += 1;
            pending.dependencies == 1
        };
        for root in roots {
            if count(root) {
                stack.push(&root.node);
            }
        }
        while let Some(node) = stack.pop() {
            if let Some(nodes) = &mut nodes {
                nodes.push(node.clone());
            }
            if let Some(stream) = node.stream()
                && !devices.contains(&stream.device())
            {
                devices.push(stream.device());
            }
            for edge in node.next_functions().iter().flatten() {
                if edge.node.topological() >= least && count(edge) {
                    stack.push(&edge.node);
                }
            }
        }
        devices
    }

    /// Says of each node what is wanted of it. In the order of age: needed is what leads to something wanted.
    fn plan(&mut self, wanted: &Wanted<'_>, outputs: &[Edge], mut nodes: Vec<Node>) {
        self.has_plan = true;
        let mut needed = Set::default();
        for (result, edge) in outputs.iter().enumerate() {
            let address = edge.node.address();
            if let Wanted::Accumulated(_) = wanted {
                needed.insert(address);
            } else {
                self.captures.entry(address).or_default().push(Capture { input: edge.input, result });
            }
        }
        nodes.sort_unstable_by_key(Node::topological);
        for node in &nodes {
            let leads = node.next_functions().iter().flatten().any(|edge| {
                let address = edge.node.address();
                needed.contains(&address) || self.captures.contains_key(&address)
            });
            if leads {
                needed.insert(node.address());
            }
        }
        for (address, pending) in &mut self.pending {
            pending.role = Role {
                is_needed: needed.contains(address),
                is_captured: self.captures.contains_key(address),
            };
        }
    }
}

/// Nodes with a shorter way to a leaf than this lead to none of the places.
fn least_topological(outputs: &[Edge]) -> u64 {
    outputs.iter().map(|edge| edge.node.topological()).min().unwrap_or(0)
}
