//! [`GraphRun`]: a launch of a graph as it runs, node by node.

use c10_core::DeviceIndex;

use super::log::Work;
use super::schedule::Schedule;
use super::slab::Id;
use super::state::State;
use super::work::{Item, Ran};

/// A launch that stands in a stream's queue.
#[derive(Debug)]
pub(super) struct GraphRun {
    graph: u64,
    nodes: Vec<RunNode>,
    /// How many have not run.
    left: usize,
}

/// A node of a launch.
#[derive(Debug)]
pub(super) struct RunNode {
    /// The nodes that it runs behind, by place.
    pub(super) before: Vec<usize>,
    pub(super) device: DeviceIndex,
    /// `None` when it has run.
    pub(super) item: Option<Item>,
    pub(super) name: &'static str,
    /// As [`Queued::issued_at`](super::work::Queued::issued_at).
    pub(super) issued_at: u64,
}

impl GraphRun {
    pub(super) fn new(graph: u64, nodes: Vec<RunNode>) -> Self {
        Self { graph, left: nodes.len(), nodes }
    }

    /// The nodes that can run now.
    fn ready(&self) -> Vec<usize> {
        let has_run = |at: &usize| self.nodes.get(*at).is_none_or(|node| node.item.is_none());
        let ready = self.nodes.iter().enumerate();
        ready
            .filter(|(_, node)| node.item.is_some() && node.before.iter().all(has_run))
            .map(|(at, _)| at)
            .collect()
    }
}

impl State {
    /// Runs one node of the launch at the front of a stream. Whether there are more of them.
    pub(super) fn run_node(&mut self, id: Id) -> bool {
        let Self { streams, schedule, .. } = self;
        let Some(stream) = streams.get_mut(id) else { return false };
        let handle = stream.handle(id);
        let (place, process) = (stream.done + 1, stream.process);
        let Some(queued) = stream.queue.front_mut() else { return false };
        let end_ns = queued.end_ns;
        let Item::Graph(run) = &mut queued.item else { return false };
        if run.left == 0 {
            return false;
        }
        let ready = run.ready();
        let chosen = match schedule {
            Schedule::Seeded(rng) => rng.below(ready.len() as u64) as usize,
            Schedule::Manual | Schedule::Eager => 0,
        };
        // Of nodes that depend on earlier ones alone, one is always ready.
        let Some(node) = ready.get(chosen).and_then(|at| run.nodes.get_mut(*at)) else { return false };
        let Some(item) = node.item.take() else { return false };
        let (device, name, issued_at) = (node.device, node.name, node.issued_at);
        run.left -= 1;
        let more = run.left > 0;
        if self.work.is_on() {
            self.work.push(Work { stream: handle, place, name, end_ns });
        }
        self.execute(Ran { on: handle, device, process, issued_at }, item);
        more
    }

    /// A launch has run.
    pub(super) fn end_run(&mut self, run: &GraphRun) {
        self.drop_graph_memory(run.graph);
    }
}
