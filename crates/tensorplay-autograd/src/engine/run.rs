//! The run of a backward call: [`execute`], and [`step`], which runs one node.

use std::collections::BinaryHeap;

use aten::{Error, Result, Tensor};
use c10_core::Stream;
use c10_core::guard::{MultiStreamGuard, StreamGuard};
use smallvec::SmallVec;

use super::buffer::Held;
use super::call::{Call, Level};
use super::carried::Carried;
use super::ready::{Ready, Role, Turn};
use super::task::{GraphTask, Offer, Wanted};
use super::{shared, streams, unwanted, validate, worker};
use crate::accumulate::AccumulateGrad;
use crate::anomaly;
use crate::gradients::{Gradients, give_up};
use crate::hooks;
use crate::meta::meta_or_init;
use crate::mode::GradModeGuard;
use crate::node::{Edge, FIRST_IN_LINE, Node};

/// How many backward calls within backward calls run on one stack; deeper ones run on a thread of their own.
const DEEPEST: usize = 60;

/// What is asked for.
pub(super) struct Request<'a> {
    pub(super) roots: SmallVec<[Edge; 1]>,
    pub(super) gradients: SmallVec<[Option<Tensor>; 1]>,
    pub(super) keep_graph: bool,
    pub(super) create_graph: bool,
    pub(super) wanted: Wanted<'a>,
}

/// A task, and what is ready in it, of a graph whose nodes are there for `'g`.
pub(super) trait Access<'g> {
    /// Calls `f` with the task. It runs no operator.
    fn with<R>(&mut self, f: impl FnOnce(&mut GraphTask) -> R) -> R;

    /// Puts a node in its queue.
    fn push(&mut self, node: &'g Node, turn: Turn) -> Result<()>;

    /// Whether a node, which a gradient is there for, waits for no other and comes before all that is ready: see
    /// Note [Chains].
    fn runs_next(&self, node: &Node) -> bool;

    /// Whether nodes keep what they saved.
    fn keeps_graph(&self) -> bool;
}

/// Runs it; the gradients that were wanted, in their order.
pub(super) fn execute(request: Request<'_>) -> Result<Vec<Option<Tensor>>> {
    if Level::count() < DEEPEST {
        return execute_here(request);
    }
    // The stack of this thread may not hold another level. The other thread stands for this one, which waits.
    let (carried, home, streams) = (Carried::here(), worker::home(), streams::all_current());
    let run = || {
        let _carried = carried.enter();
        let _home = worker::stand_for(home);
        let _streams = MultiStreamGuard::new(&streams)?;
        execute_here(request)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, run).map_err(worker::no_thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn execute_here(request: Request<'_>) -> Result<Vec<Option<Tensor>>> {
    let call = Call::new();
    let _entered =
        (Level::enter(), call.enter(), GradModeGuard::new(request.create_graph), unwanted::enter_none());
    let Request { roots, gradients, keep_graph, wanted, .. } = request;
    let gradients = fit_roots(&roots, gradients)?;
    let is_asked = hooks::are_awaited();
    let (task, devices) = GraphTask::new(&roots, &wanted, is_asked);
    if is_asked {
        call.know_nodes(task.addresses());
    }
    let task = match devices.is_empty() {
        true => Local { task, next: None, ready: BinaryHeap::new(), keep_graph }.run(&roots, gradients)?,
        false => shared::run(task, &call, &devices, keep_graph, |task| seed(task, &roots, gradients))?,
    };
    streams::join(task.leaves)?;
    call.finish()?;
    Ok(task.captured)
}

/// Gradients of roots are of the roots' dtype.
fn fit_roots(
    roots: &[Edge],
    gradients: SmallVec<[Option<Tensor>; 1]>,
) -> Result<SmallVec<[Option<Tensor>; 1]>> {
    let fit = |(edge, gradient): (&Edge, Option<Tensor>)| validate::root(edge, gradient);
    roots.iter().zip(gradients).map(fit).collect()
}

/// A task that is on no device but the host: its thread has it alone.
struct Local<'g> {
    task: GraphTask,
    /// The greatest of those that are ready, if it became ready last: in a chain they need no heap.
    next: Option<Ready<&'g Node>>,
    ready: BinaryHeap<Ready<&'g Node>>,
    keep_graph: bool,
}

impl<'g> Local<'g> {
    fn run(mut self, roots: &'g [Edge], gradients: SmallVec<[Option<Tensor>; 1]>) -> Result<GraphTask> {
        seed(&mut self, roots, gradients)?;
        let mut flow = Flow::default();
        while let Some(Ready { node, turn }) = self.next.take().or_else(|| self.ready.pop()) {
            step(&mut self, node, turn, &mut flow)?;
        }
        Ok(self.task)
    }
}

impl<'g> Access<'g> for Local<'g> {
    #[inline]
    fn with<R>(&mut self, f: impl FnOnce(&mut GraphTask) -> R) -> R {
        f(&mut self.task)
    }

    #[inline]
    fn push(&mut self, node: &'g Node, turn: Turn) -> Result<()> {
        let ready = Ready { node, turn };
        match &self.next {
            Some(next) if *next < ready => self.ready.extend(self.next.replace(ready)),
            Some(_) => self.ready.push(ready),
            None if self.ready.peek().is_none_or(|greatest| *greatest < ready) => self.next = Some(ready),
            None => self.ready.push(ready),
        }
        Ok(())
    }

    #[inline]
    fn runs_next(&self, node: &Node) -> bool {
        // All nodes that alone wait for a gradient are needed, and none of their gradients is a result. Those of the host
        // have no streams.
        self.task.waits_for_one(node)
            && node.num_inputs() == 1
            && self.next.is_none()
            && self.ready.peek().is_none_or(|greatest| greatest.node.sequence() < node.sequence())
    }

    #[inline]
    fn keeps_graph(&self) -> bool {
        self.keep_graph
    }
}

/// Gives the roots their gradients.
fn seed<'g>(
    task: &mut impl Access<'g>,
    roots: &'g [Edge],
    gradients: SmallVec<[Option<Tensor>; 1]>,
) -> Result<()> {
    roots.iter().zip(gradients).try_for_each(|(root, gradient)| deliver(task, root, gradient, None))
}

/// Passes on a gradient that was made on `producer`.
#[inline]
fn deliver<'g>(
    task: &mut impl Access<'g>,
    edge: &'g Edge,
    gradient: Option<Tensor>,
    producer: Option<Stream>,
) -> Result<()> {
    let mut held = match gradient {
        Some(gradient) => Some(Held::new(gradient, producer, edge.node.stream())?),
        None => None,
    };
    loop {
        match task.with(|task| task.offer(edge, held)) {
            Offer::Taken => return Ok(()),
            Offer::Ready(turn) => return task.push(&edge.node, turn),
            Offer::Occupied { before, gradient } => held = Some(before.add(gradient)?),
        }
    }
}

/// The gradients that the node which runs takes, and those that it gives: the same places for one node after another.
#[derive(Debug, Default)]
pub(super) struct Flow {
    taken: Gradients,
    given: Gradients,
}

// Note [Chains]
// A node that waits for one gradient alone, and that will be the next to run, is run as soon as that gradient is there:
// what one node gave is what the next one takes, and goes through no queue.

/// Runs one node, and those that follow it in a chain, and passes on what the last of them gave.
pub(super) fn step<'g>(
    task: &mut impl Access<'g>,
    mut node: &'g Node,
    turn: Turn,
    flow: &mut Flow,
) -> Result<()> {
    let Turn { buffer, role, .. } = turn;
    let stream = node.stream();
    let _current = stream.map(StreamGuard::new).transpose()?;
    flow.taken = buffer.hand_over(stream)?;
    if role.is_captured || !role.is_needed {
        capture(task, node, role, &mut flow.taken)?;
        if !role.is_needed {
            return Ok(());
        }
    }
    loop {
        let unwanted = task.with(|task| task.unwanted_of(node));
        let _unwanted = (unwanted != 0).then(|| unwanted::enter(node, unwanted));
        run_node(node, flow, task.keeps_graph())?;
        match node.next_functions() {
            // See Note [Chains].
            [Some(edge)] if task.runs_next(&edge.node) => {
                std::mem::swap(&mut flow.taken, &mut flow.given);
                node = &edge.node;
            }
            _ => break,
        }
    }
    if let Some(stream) = stream
        && let Some(leaf) = leaf_of(node)
    {
        let gradient = meta_or_init(leaf).state().grad.clone();
        task.with(|task| task.leaves.push((stream, gradient)));
    }
    for (edge, gradient) in node.next_functions().iter().zip(&mut flow.given) {
        if let Some(edge) = edge {
            deliver(task, edge, gradient.take(), stream)?;
        }
    }
    Ok(())
}

/// Keeps gradients that are results: as they came, unless the node only stands for the tensor.
fn capture<'g>(task: &mut impl Access<'g>, node: &Node, role: Role, gradients: &mut Gradients) -> Result<()> {
    if !role.is_needed {
        run_tensor_hooks(node, gradients)?;
    }
    if role.is_captured {
        task.with(|task| {
            for capture in task.captures_of(node) {
                let gradient = &gradients[capture.input];
                task.captured[capture.result].clone_from(gradient);
                task.leaves.extend(node.stream().map(|stream| (stream, gradient.clone())));
            }
        });
    }
    Ok(())
}

#[inline]
fn leaf_of(node: &Node) -> Option<&Tensor> {
    if node.sequence() != FIRST_IN_LINE {
        return None;
    }
    node.body::<AccumulateGrad>().and_then(AccumulateGrad::variable)
}

/// The hooks of the tensors whose gradients these are: a leaf's are with the leaf.
#[inline]
fn run_tensor_hooks(node: &Node, gradients: &mut Gradients) -> Result<()> {
    if let Some(leaf) = leaf_of(node) {
        let list = meta_or_init(leaf).state().hooks.clone();
        if !list.is_empty()
            && let Some(own) = gradients.first_mut().and_then(Option::take)
        {
            gradients[0] = Some(hooks::run(&list, own)?);
        }
    }
    node.hooks().map_or(Ok(()), |hooks| hooks.run_tensor_hooks(gradients))
}

/// The node itself, and a check of what it gave. What it took is given up.
#[inline]
fn run_node(node: &Node, flow: &mut Flow, keep: bool) -> Result<()> {
    if node.hooks().is_some() || node.sequence() == FIRST_IN_LINE || anomaly::is_enabled() {
        return run_watched(node, flow, keep);
    }
    node.apply(&mut flow.taken, keep, &mut flow.given)?;
    give_up(&mut flow.taken);
    validate::outputs(node, &mut flow.given)
}

/// Hooks, the node itself, a check of what it gave, hooks.
#[inline(never)]
fn run_watched(node: &Node, Flow { taken, given }: &mut Flow, keep: bool) -> Result<()> {
    run_tensor_hooks(node, taken)?;
    if let Some(hooks) = node.hooks() {
        hooks.before(taken)?;
    }
    let post = node.hooks().filter(|hooks| hooks.has_post());
    let seen = post.map(|_| taken.clone());
    {
        let _running = anomaly::enter_node(node);
        node.apply(taken, keep, given).map_err(|error| explained(node, error))?;
    }
    give_up(taken);
    validate::outputs(node, given)?;
    if anomaly::checks_nan() {
        validate::no_nan(node, given)?;
    }
    if let (Some(hooks), Some(seen)) = (post, seen) {
        hooks.after(given, &seen)?;
    }
    Ok(())
}

/// In anomaly mode the sentence says where the node was made.
#[cold]
fn explained(node: &Node, error: Error) -> Error {
    if !anomaly::is_enabled() {
        return error;
    }
    let kind = error.kind();
    Error::new(kind, format!("{error}\n{}", anomaly::Trail(node)))
}
