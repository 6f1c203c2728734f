//! The run of a [`GraphTask`] on the thread that asked for it.

use std::cell::{Cell, RefCell};

use aten::{Error, Result, Tensor};
use smallvec::SmallVec;

use super::ready::Ready;
use super::task::{GraphTask, Wanted};
use super::validate;
use crate::accumulate::{self, AccumulateGrad};
use crate::anomaly;
use crate::gradients::Gradients;
use crate::hooks;
use crate::meta::meta_or_init;
use crate::mode::GradModeGuard;
use crate::node::{Edge, Node};

/// How many backward calls within backward calls run on one stack; deeper ones run on a thread of their own.
const DEEPEST: usize = 60;

type Callback = Box<dyn FnOnce() -> Result<()> + Send>;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// For each call that runs on this thread, what is to be done at its end.
    static CALLBACKS: RefCell<Vec<Vec<Callback>>> = const { RefCell::new(Vec::new()) };
}

/// What is asked for.
pub(super) struct Request<'a> {
    pub(super) roots: SmallVec<[Edge; 1]>,
    pub(super) gradients: SmallVec<[Option<Tensor>; 1]>,
    pub(super) keep_graph: bool,
    pub(super) create_graph: bool,
    /// The places whose gradients are wanted; none for all leaves.
    pub(super) outputs: Vec<Edge>,
    /// The tensors of these places, when the gradients are to be accumulated there.
    pub(super) accumulate: Option<&'a [Tensor]>,
}

/// Calls `f` when the backward call that this thread works for is done (`queue_callback`).
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) outside of a backward call.
pub fn queue_callback(f: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    CALLBACKS.with_borrow_mut(|calls| match calls.last_mut() {
        Some(callbacks) => {
            callbacks.push(Box::new(f));
            Ok(())
        }
        None => Err(Error::invalid_argument("Final callbacks can only be installed during backward pass.")),
    })
}

/// Runs it; the gradients that were wanted, in their order.
pub(super) fn execute(request: Request<'_>) -> Result<Vec<Option<Tensor>>> {
    if DEPTH.get() < DEEPEST {
        return execute_here(request);
    }
    // The stack of this thread may not hold another level.
    std::thread::scope(|scope| match scope.spawn(|| execute_here(request)).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// The depth of calls on this thread, and the callbacks of the innermost.
struct Level;

impl Level {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        CALLBACKS.with_borrow_mut(|calls| calls.push(Vec::new()));
        Self
    }

    /// Does what was queued, and what that queues.
    fn finish(&self) -> Result<()> {
        let next = || {
            CALLBACKS.with_borrow_mut(|calls| {
                let callbacks = calls.last_mut()?;
                (!callbacks.is_empty()).then(|| callbacks.remove(0))
            })
        };
        while let Some(callback) = next() {
            callback()?;
        }
        Ok(())
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        let callbacks = CALLBACKS.with_borrow_mut(Vec::pop);
        drop(callbacks);
    }
}

fn execute_here(request: Request<'_>) -> Result<Vec<Option<Tensor>>> {
    let _mode = GradModeGuard::new(request.create_graph);
    let runs = |result: usize| {
        let is_leaf = request.outputs[result].node.body::<AccumulateGrad>().is_some();
        request.accumulate.is_some() && is_leaf
    };
    let wanted = (!request.outputs.is_empty()).then_some(Wanted { outputs: &request.outputs, runs: &runs });
    let mut task = GraphTask::new(&request.roots, wanted, request.keep_graph, request.create_graph);
    let _entered = task.enter();
    let level = Level::enter();
    let gradients = fit_roots(&request.roots, request.gradients)?;
    task.seed(&request.roots, gradients)?;
    while let Some(ready) = task.pop() {
        step(&mut task, ready)?;
    }
    level.finish()?;
    let captured = std::mem::take(&mut task.captured);
    match request.accumulate {
        None => Ok(captured),
        Some(inputs) => {
            for (input, gradient) in inputs.iter().zip(captured) {
                if let Some(gradient) = gradient {
                    accumulate::retain(meta_or_init(input), &gradient)?;
                }
            }
            Ok(Vec::new())
        }
    }
}

/// Gradients of roots are of the roots' dtype.
fn fit_roots(
    roots: &[Edge],
    gradients: SmallVec<[Option<Tensor>; 1]>,
) -> Result<SmallVec<[Option<Tensor>; 1]>> {
    let fit = |(edge, gradient): (&Edge, Option<Tensor>)| validate::root(edge, gradient);
    roots.iter().zip(gradients).map(fit).collect()
}

/// Runs one node, and passes on what it gave.
fn step(task: &mut GraphTask, Ready { node, buffer, .. }: Ready) -> Result<()> {
    let mut gradients = buffer.into_gradients();
    if !task.runs_all() {
        let (captures, is_needed) = task.asked_of(&node);
        if !captures.is_empty() {
            run_tensor_hooks(&node, &mut gradients)?;
            for capture in captures {
                task.captured[capture.result].clone_from(&gradients[capture.input]);
            }
        }
        if !is_needed {
            return Ok(());
        }
    }
    let given = run_node(&node, gradients, task.keep_graph)?;
    task.distribute(&node, given)
}

/// The hooks of the tensors whose gradients these are: a leaf's are with the leaf.
fn run_tensor_hooks(node: &Node, gradients: &mut Gradients) -> Result<()> {
    let leaf = node.body::<AccumulateGrad>().and_then(AccumulateGrad::variable);
    for (input, gradient) in gradients.iter_mut().enumerate() {
        let Some(own) = gradient.take() else { continue };
        *gradient = Some(match (leaf, node.hooks()) {
            (Some(leaf), _) => {
                let list = meta_or_init(leaf).state().hooks.clone();
                hooks::run(&list, own)?
            }
            (None, Some(list)) => list.run_tensor_hooks(input, own)?,
            (None, None) => own,
        });
    }
    Ok(())
}

/// Hooks, the node itself, a check of what it gave, hooks.
fn run_node(node: &Node, mut gradients: Gradients, keep: bool) -> Result<Gradients> {
    if let Some(leaf) = node.body::<AccumulateGrad>().and_then(AccumulateGrad::variable) {
        let list = meta_or_init(leaf).state().hooks.clone();
        if !list.is_empty()
            && let Some(own) = gradients.first_mut().and_then(Option::take)
        {
            gradients[0] = Some(hooks::run(&list, own)?);
        }
    }
    if let Some(hooks) = node.hooks() {
        hooks.before(&mut gradients)?;
    }
    let post = node.hooks().filter(|hooks| hooks.has_post());
    let taken = post.map(|_| gradients.clone());
    let result = anomaly::while_running(node, || node.apply(gradients, keep));
    let mut given = match result {
        Ok(given) => given,
        Err(error) => return Err(explained(node, error)),
    };
    if !given.is_empty() || !node.next_functions().is_empty() {
        validate::outputs(node, &mut given)?;
    }
    if anomaly::checks_nan() {
        validate::no_nan(node, &given)?;
    }
    if let (Some(hooks), Some(taken)) = (post, taken) {
        hooks.after(&mut given, &taken)?;
    }
    Ok(given)
}

/// In anomaly mode the sentence says where the node was made.
fn explained(node: &Node, error: Error) -> Error {
    if !anomaly::is_enabled() {
        return error;
    }
    let kind = error.kind();
    Error::new(kind, format!("{error}\n{}", anomaly::Trail(node)))
}
