//! Views and the tensors they are views of: which node made a view now, and what an in-place operation may change.
//!
//! // Note [In-place operations on views]
//! An in-place operation on a view writes into its base. So the base gets a new node, [`CopySlices`], which gives the
//! operation's node the part of the gradient that is the view's, and puts the result in its place. Every view of the
//! base then has a node that is out of date: it is made anew when it is asked for, as an `as_strided` of the base,
//! when the version has moved on. This is PyTorch's scheme.

use aten::{Error, Result, Tensor};
use c10_core::shared::SharedAny;

use crate::copy_slices::{CopySlices, is_followed};
use crate::meta::{edge, first_edge, meta_or_init, requires_grad};
use crate::mode::is_grad_enabled;
use crate::node::{Edge, Node};
use crate::saved::TensorMeta;

/// How a view was made (`CreationMeta`), as [`Tensor::view_mark`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Creation {
    Default = 0,
    InCustomFunction = 1,
    MultiOutput = 2,
    NoGradMode = 3,
    InferenceMode = 4,
}

impl Creation {
    pub(crate) fn of(view: &Tensor) -> Self {
        match view.view_mark() {
            1 => Self::InCustomFunction,
            2 => Self::MultiOutput,
            3 => Self::NoGradMode,
            4 => Self::InferenceMode,
            _ => Self::Default,
        }
    }

    /// Of a view of a view: the restriction travels down the chain.
    fn of_view_of(self, parent: &Tensor) -> Self {
        match (self, Self::of(parent)) {
            (Self::InferenceMode, _) | (_, Self::InferenceMode) => Self::InferenceMode,
            (Self::Default, of_parent) => of_parent,
            (own, _) => own,
        }
    }
}

/// Says that `view` is one of `of`.
pub(crate) fn link(view: &mut Tensor, of: &Tensor, creation: Creation) {
    if of.is_inference() {
        return;
    }
    let creation = if of.view_base().is_some() { creation.of_view_of(of) } else { creation };
    view.set_view_base(of.view_base().unwrap_or(of).clone(), creation as u8);
}

/// The node that made the tensor, and as which of its results; `None` for leaves.
pub(crate) fn made_by(tensor: &Tensor) -> Result<Option<Edge>> {
    match tensor.view_base() {
        Some(base) => made_view(tensor, base),
        None => Ok(edge(tensor).0),
    }
}

fn made_view(view: &Tensor, base: &Tensor) -> Result<Option<Edge>> {
    let version = view.version();
    let (edge, edge_version) = edge(view);
    if edge_version.unwrap_or(view.view_version()) == version {
        return Ok(edge);
    }
    if edge.is_none() && !base.is_recorded() {
        return Ok(None);
    }
    refuse_ambiguous(view, Creation::of(view), Refused::Base)?;
    let Some(below) = gradient_edge(base)? else { return Ok(edge) };
    let (base, like) = (TensorMeta::of(base), TensorMeta::of(view));
    if !is_followed(&base, &like) {
        return Err(Error::not_implemented(
            "a view of another dtype has no node after its base was changed in place; take the view again",
        ));
    }
    let node = crate::copy_slices::view_node(base, like, below);
    let edge = Edge { node, input: 0 };
    set_edge(view, edge.clone(), version);
    Ok(Some(edge))
}

/// As [`gradient_edge`], of any tensor: `None` for one that requires no gradient. Of most tensors that do it is a look
/// at what they were made with.
#[inline]
pub(crate) fn edge_if_required(tensor: &Tensor) -> Result<Option<Edge>> {
    match first_edge(tensor) {
        Some(edge) if tensor.view_base().is_none() => Ok(Some(edge)),
        _ => edge_of_unusual(tensor),
    }
}

fn edge_of_unusual(tensor: &Tensor) -> Result<Option<Edge>> {
    if requires_grad(tensor) { gradient_edge(tensor) } else { Ok(None) }
}

/// Where a gradient of the tensor goes: to the node that made it, or to the accumulator of a leaf.
pub(crate) fn gradient_edge(tensor: &Tensor) -> Result<Option<Edge>> {
    if let Some(edge) = made_by(tensor)? {
        return Ok(Some(edge));
    }
    if !requires_grad(tensor) {
        return Ok(None);
    }
    Ok(Some(Edge { node: crate::accumulate::accumulator(tensor), input: 0 }))
}

/// Refuses an in-place operation that autograd could not follow (`check_inplace`).
pub(crate) fn check_in_place(tensor: &Tensor, is_recorded: bool) -> Result<()> {
    if !is_recorded || !is_grad_enabled() {
        return Ok(());
    }
    if let Some(base) = tensor.view_base() {
        let creation = Creation::of(tensor);
        if creation != Creation::Default {
            refuse_ambiguous(tensor, creation, Refused::View)?;
        }
        if is_leaf(base) && base.is_recorded() {
            return Err(Error::invalid_argument(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
    }
    if requires_grad(tensor) && made_by(tensor)?.is_none() && tensor.view_base().is_none() {
        return Err(Error::invalid_argument(
            "a leaf Variable that requires grad is being used in an in-place operation.",
        ));
    }
    Ok(())
}

fn is_leaf(tensor: &Tensor) -> bool {
    matches!(made_by(tensor), Ok(None))
}

/// Makes `node` the one that made `tensor`, which an operation has just changed in place (`rebase_history`).
pub(crate) fn rebase_history(tensor: &Tensor, node: Node) -> Result<()> {
    let Some(base) = tensor.view_base() else {
        set_made_by(tensor, Edge { node, input: 0 });
        return Ok(());
    };
    if node.num_inputs() != 1 {
        return Err(Error::invalid_argument(
            "Functions which modify views in-place must return a single Variable",
        ));
    }
    let (like_base, like) = (TensorMeta::of(base), TensorMeta::of(tensor));
    if !is_followed(&like_base, &like) {
        return Err(Error::not_implemented(
            "in-place operations on views of another dtype are not followed; clone the view first",
        ));
    }
    let copied = CopySlices::make(like_base, like, gradient_edge(base)?, node);
    set_made_by(base, Edge { node: copied, input: 0 });
    // The view's node is made now, so that it is of this version.
    made_by(tensor)?;
    Ok(())
}

/// Sets the node that made a result, with which mostly nothing is kept yet.
#[inline]
pub(crate) fn set_result(tensor: &mut Tensor, Edge { node, input }: Edge) {
    let output = u32::try_from(input).expect("a call has fewer results");
    if let Err(node) = tensor.set_made_by(node.into_any(), output) {
        set_known_result(tensor, &node, input);
    }
}

/// The same, of one that others have too, or with which something is kept.
#[cold]
fn set_known_result(tensor: &Tensor, node: &SharedAny, input: usize) {
    let node = Node::from_any(node).expect("it was a node's");
    set_made_by(tensor, Edge { node, input });
}

/// Sets the node that made a tensor.
pub(crate) fn set_made_by(tensor: &Tensor, edge: Edge) {
    set_edge(tensor, edge, tensor.version());
}

/// A retained gradient moves to the new node, hooks stay where they are.
fn set_edge(tensor: &Tensor, edge: Edge, version: u32) {
    let (before, retains) = meta_or_init(tensor).change(|state| {
        state.edge_version = Some(version);
        (state.edge.replace(edge.clone()), state.retains_grad)
    });
    if retains {
        if let Some(before) = &before
            && let Some(hooks) = before.node.hooks()
        {
            hooks.forget_retained(before.input, tensor);
        }
        edge.node.hooks_or_init().retain_grad(edge.input, tensor.downgrade());
    }
}

/// What of an ambiguous view was modified.
#[derive(Clone, Copy)]
enum Refused {
    View,
    Base,
}

/// `handle_view_on_rebase`.
fn refuse_ambiguous(view: &Tensor, creation: Creation, what: Refused) -> Result<()> {
    let (edge, _) = edge(view);
    let maker = edge.as_ref().map(|edge| (edge.input, crate::saved::bare_name(edge.node.name())));
    let modified = match what {
        Refused::View => "and is being modified inplace",
        Refused::Base => "and its base or another view of its base has been modified inplace",
    };
    let why = match creation {
        Creation::Default => return Ok(()),
        Creation::NoGradMode => {
            return Err(made_in_mode("no_grad", "no_grad", "with grad mode enabled", maker, what));
        }
        Creation::InferenceMode => {
            return Err(made_in_mode("inference", "inference_mode", "in normal mode", maker, what));
        }
        Creation::MultiOutput => {
            "This view is the output of a function that returns multiple views. Such functions do not allow the output \
             views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        }
        Creation::InCustomFunction => {
            "This view was created inside a custom Function (or because an input was returned as-is) and the autograd \
             logic to handle view+inplace would override the custom backward associated with the custom Function, \
             leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the \
             custom Function."
        }
    };
    let opening = match maker {
        Some((input, name)) => format!("Output {input} of {name} is a view {modified}. "),
        None => format!("A view {modified}. "),
    };
    Err(Error::invalid_argument(opening + why))
}

/// What is said of a view that was made in a mode, or is a view of such a one.
fn made_in_mode(mode: &str, block: &str, normal: &str, maker: Option<(usize, &str)>, what: Refused) -> Error {
    let opening = match maker {
        Some((input, name)) => format!("Output {input} of {name} is a view of a view which"),
        None => "A view".to_owned(),
    };
    let modified = match what {
        Refused::View => "is being modified inplace",
        Refused::Base => "its base or another view of its base has been modified inplace",
    };
    Error::invalid_argument(format!(
        "{opening} was created in {mode} mode and {modified} {normal}. Given that this use case is ambiguous and \
         error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both \
         inside the {block} block (if you don't want the inplace to be tracked) or both outside (if you want the \
         inplace to be tracked)."
    ))
}
