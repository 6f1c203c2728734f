//! The engine: runs a graph backwards (`torch::autograd::Engine`).
//!
//! [`backward`] and [`grad`] make a task of the graph below their roots: how many gradients each
//! node waits for. A node runs when it has them all, of those that are ready the newest first. Nodes of the host run
//! on the thread that called, those of other devices on a thread for each, under the stream that the forward call
//! used. A node that calls [`backward`] itself makes a task of its own, which runs before what is left of the first.

mod streams;
mod buffer;
mod ready;
mod task;
mod call;
mod carried;
mod unwanted;
mod validate;
mod queue;
mod shared;
mod worker;
mod run;

use aten::{Error, ErrorKind, Result, Tensor, TensorOptions};
use smallvec::SmallVec;

use self::task::Wanted;
use crate::meta::requires_grad;
use crate::mode::no_grad;
use crate::node::Edge;
use crate::view_track::{gradient_edge, made_by};

pub use call::queue_callback;
pub(crate) use call::{current_task_id, runs_in_current};
pub(crate) use streams::of_device as current_stream;
pub(crate) use unwanted::unwanted;

/// What [`backward_with`] may be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions<'a> {
    /// The gradients of the roots, one each; ones for roots of one element where it is left out.
    pub gradients: &'a [Option<Tensor>],
    /// Keeps what nodes saved, so that the graph can be run again. Left out, it is `create_graph`.
    pub retain_graph: Option<bool>,
    /// Records the backward pass itself. A leaf and its gradient then hold each other, until the gradient is taken
    /// away.
    pub create_graph: bool,
    /// The tensors whose gradients are accumulated; all leaves where there are none.
    pub inputs: Option<&'a [Tensor]>,
}

/// What [`grad_with`] may be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct GradOptions<'a> {
    /// The gradients of the outputs, one each; ones for outputs of one element where it is left out.
    pub grad_outputs: &'a [Option<Tensor>],
    /// Keeps what nodes saved, so that the graph can be run again. Left out, it is `create_graph`.
    pub retain_graph: Option<bool>,
    /// Records the backward pass itself.
    pub create_graph: bool,
    /// Gives `None` for an input that the outputs do not depend on, where that is an error otherwise.
    pub allow_unused: bool,
    /// Gives zeros for such an input.
    pub materialize_grads: bool,
}

/// Computes the gradients of the leaves below `roots`, and accumulates them there (`torch.autograd.backward`).
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] when a root has no history, when one of more than one element has no gradient, or
/// when the graph was run before and not kept; what a node or a hook returns. Gradients that were accumulated until
/// then stay.
pub fn backward(roots: &[Tensor]) -> Result<()> {
    backward_with(roots, BackwardOptions::default())
}

/// As [`backward`], with options.
///
/// # Errors
/// As there; and for inputs that need no gradient.
pub fn backward_with(roots: &[Tensor], options: BackwardOptions<'_>) -> Result<()> {
    let outputs = match options.inputs {
        Some([]) => {
            return Err(Error::invalid_argument("`inputs` argument to `backward()` cannot be empty."));
        }
        Some(inputs) => input_edges(inputs)?,
        None => Vec::new(),
    };
    let create_graph = options.create_graph;
    let (edges, gradients) = roots_of(roots, options.gradients)?;
    // Inputs that are no leaves have their gradients put to them as they pass by, from now on.
    options.inputs.unwrap_or_default().iter().try_for_each(crate::TensorAutograd::retain_grad)?;
    let request = run::Request {
        roots: edges,
        gradients,
        keep_graph: options.retain_graph.unwrap_or(create_graph),
        create_graph,
        wanted: if options.inputs.is_some() { Wanted::Accumulated(&outputs) } else { Wanted::All },
    };
    run::execute(request).map(drop)
}

/// The gradients of `outputs` with respect to `inputs` (`torch.autograd.grad`): the sum over outputs. Nothing is
/// accumulated.
///
/// # Errors
/// As [`backward`]; and for an input that needs no gradient, or that the outputs do not depend on.
pub fn grad(outputs: &[Tensor], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let gradients = grad_with(outputs, inputs, GradOptions::default())?;
    Ok(gradients.into_iter().flatten().collect())
}

/// As [`grad`], with options: `None` for inputs that are not used, where that is allowed.
///
/// # Errors
/// As there.
pub fn grad_with(
    outputs: &[Tensor],
    inputs: &[Tensor],
    options: GradOptions<'_>,
) -> Result<Vec<Option<Tensor>>> {
    if inputs.is_empty() {
        return Err(Error::invalid_argument("`inputs` argument to `grad()` cannot be empty."));
    }
    let wanted = input_edges(inputs)?;
    let create_graph = options.create_graph;
    let (roots, gradients) = roots_of(outputs, options.grad_outputs)?;
    let request = run::Request {
        roots,
        gradients,
        keep_graph: options.retain_graph.unwrap_or(create_graph),
        create_graph,
        wanted: Wanted::Captured(&wanted),
    };
    let mut captured = run::execute(request)?;
    for (at, (gradient, input)) in captured.iter_mut().zip(inputs).enumerate() {
        if gradient.is_some() {
            continue;
        }
        if options.materialize_grads {
            *gradient = Some(no_grad(|| input.zeros_like(TensorOptions::default()))?);
        } else if !options.allow_unused {
            return Err(Error::invalid_argument(format!(
                "The differentiated Tensor at index {at} appears to not have been used in the graph. Set \
                 allow_unused=True if this is the desired behavior."
            )));
        }
    }
    Ok(captured)
}

/// As [`grad_with`], without errors for inputs that are not used, and with the gradients of the outputs as they are:
/// `None` is one that is not defined.
pub(crate) fn grad_of_undefined(
    outputs: &[Tensor],
    inputs: &[Tensor],
    gradients: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let wanted = input_edges(inputs)?;
    let request = run::Request {
        roots: outputs.iter().enumerate().map(|(at, root)| root_edge(root, at)).collect::<Result<_>>()?,
        gradients: gradients.iter().cloned().collect(),
        keep_graph: false,
        create_graph: false,
        wanted: Wanted::Captured(&wanted),
    };
    run::execute(request)
}

fn input_edges(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    let mut edges = Vec::with_capacity(inputs.len());
    for input in inputs {
        let edge = if requires_grad(input) { gradient_edge(input)? } else { None };
        edges.push(edge.ok_or_else(|| {
            Error::invalid_argument("One of the differentiated Tensors does not require grad")
        })?);
    }
    Ok(edges)
}

type Roots = (SmallVec<[Edge; 1]>, SmallVec<[Option<Tensor>; 1]>);

fn roots_of(roots: &[Tensor], given: &[Option<Tensor>]) -> Result<Roots> {
    if !given.is_empty() && given.len() != roots.len() {
        return Err(Error::invalid_argument(format!(
            "got {} tensors and {} gradients",
            roots.len(),
            given.len()
        )));
    }
    let mut edges = SmallVec::new();
    let mut gradients = SmallVec::new();
    for (at, root) in roots.iter().enumerate() {
        let edge = root_edge(root, at)?;
        gradients.push(Some(match given.get(at).and_then(Option::as_ref) {
            Some(gradient) => checked(gradient, root, at)?,
            None if root.numel() == 1 && root.dtype().is_complex() => {
                return Err(Error::dtype(format!(
                    "grad can be implicitly created only for real scalar outputs but got {}",
                    root.dtype().name()
                )));
            }
            None if root.numel() == 1 => no_grad(|| root.ones_like(TensorOptions::default()))?,
            None => {
                return Err(Error::invalid_argument(
                    "grad can be implicitly created only for scalar outputs",
                ));
            }
        }));
        edges.push(edge);
    }
    Ok((edges, gradients))
}

fn root_edge(root: &Tensor, at: usize) -> Result<Edge> {
    let edge = if requires_grad(root) { gradient_edge(root)? } else { None };
    edge.ok_or_else(|| {
        Error::invalid_argument(format!(
            "element {at} of tensors does not require grad and does not have a grad_fn"
        ))
    })
}

fn checked(gradient: &Tensor, root: &Tensor, at: usize) -> Result<Tensor> {
    if gradient.sizes() != root.sizes() {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "Mismatch in shape: grad_output[{at}] has a shape of {:?} and output[{at}] has a shape of {:?}.",
                gradient.sizes(),
                root.sizes()
            ),
        ));
    }
    if gradient.dtype().is_complex() != root.dtype().is_complex() {
        return Err(Error::dtype(format!(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: \
             grad_output[{at}] has a dtype of {} and output[{at}] has a dtype of {}.",
            gradient.dtype().name(),
            root.dtype().name()
        )));
    }
    Ok(gradient.clone())
}

/// The node that made the tensor (`grad_fn`).
pub(crate) fn grad_fn(tensor: &Tensor) -> Result<Option<crate::node::Node>> {
    Ok(made_by(tensor)?.map(|edge| edge.node))
}
