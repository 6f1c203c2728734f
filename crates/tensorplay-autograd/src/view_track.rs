//! Views and the tensors they are views of: which node made a view now, and what an in-place operation may change.
//!
//! // Note [In-place operations on views]
//! An in-place operation on a view writes into its base. So the base gets a new node, [`CopySlices`], which gives the
//! operation's node the part of the gradient that is the view's, and puts the result in its place. Every view of the
//! base then has a node that is out of date: it is made anew when it is asked for, as an `as_strided` of the base,
//! when the version has moved on. This is PyTorch's scheme.

use aten::{Error, Result, Tensor};

use crate::copy_slices::CopySlices;
use crate::meta::{meta, meta_or_init, requires_grad};
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
    let own = meta(tensor);
    if let Some(base) = tensor.view_base() {
        return made_view(tensor, base);
    }
    let Some(own) = own else { return Ok(None) };
    if let Some(edge) = own.unchanged_edge() {
        return Ok(Some(edge.clone()));
    }
    Ok(own.state_if_any().and_then(|state| state.edge.clone()))
}

fn made_view(view: &Tensor, base: &Tensor) -> Result<Option<Edge>> {
    let version = view.version();
    let (edge, edge_version) = match meta(view) {
        Some(own) if own.unchanged_edge().is_some() => (own.unchanged_edge().cloned(), None),
        Some(own) => {
            own.state_if_any().map_or((None, None), |state| (state.edge.clone(), state.edge_version))
        }
        None => (None, None),
    };
    if edge_version.unwrap_or(view.view_version()) == version {
        return Ok(edge);
    }
    if edge.is_none() && !meta(base).is_some_and(|base| base.requires_grad()) {
        return Ok(None);
    }
    refuse_ambiguous(view, Creation::of(view), Refused::Base)?;
    let Some(below) = gradient_edge(base)? else { return Ok(edge) };
    if view.dtype() != base.dtype() {
        return Err(Error::not_implemented(
            "a view of another dtype has no node after its base was changed in place; take the view again",
        ));
    }
    let node = crate::copy_slices::view_node(TensorMeta::of(base), TensorMeta::of(view), below);
    let edge = Edge { node, input: 0 };
    meta_or_init(view).change(|state| {
        state.edge = Some(edge.clone());
        state.edge_version = Some(version);
    });
    Ok(Some(edge))
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
        if is_leaf(base) && meta(base).is_some_and(|base| base.requires_grad()) {
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
    if tensor.dtype() != base.dtype() {
        return Err(Error::not_implemented(
            "in-place operations on views of another dtype are not followed; clone the view first",
        ));
    }
    let copied = CopySlices::make(TensorMeta::of(base), TensorMeta::of(tensor), gradient_edge(base)?, node);
    set_made_by(base, Edge { node: copied, input: 0 });
    // The view's node is made now, so that it is of this version.
    made_by(tensor)?;
    Ok(())
}

/// Sets the node that made a tensor. A retained gradient moves to it, hooks stay where they are.
pub(crate) fn set_made_by(tensor: &Tensor, edge: Edge) {
    let retains = meta_or_init(tensor).change(|state| {
        state.edge = Some(edge.clone());
        state.edge_version = Some(tensor.version());
        state.retains_grad
    });
    if retains {
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
    let own = meta(view).and_then(|own| match own.unchanged_edge() {
        Some(edge) => Some(edge.clone()),
        None => own.state_if_any()?.edge.clone(),
    });
    let modified = match what {
        Refused::View => "and is being modified inplace",
        Refused::Base => "and its base or another view of its base has been modified inplace",
    };
    let opening = match own {
        Some(edge) => {
            format!(
                "Output {} of {} is a view {modified}. ",
                edge.input,
                crate::saved::bare_name(edge.node.name())
            )
        }
        None => format!("A view {modified}. "),
    };
    let why = match creation {
        Creation::Default => return Ok(()),
        Creation::MultiOutput => {
            "This view is the output of a function that returns multiple views. Such functions do not allow the output \
             views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        }
        Creation::NoGradMode | Creation::InferenceMode => {
            let (mode, guard) = match creation {
                Creation::NoGradMode => ("no_grad", "no_grad block"),
                _ => ("inference mode", "inference mode block"),
            };
            return Err(Error::invalid_argument(format!(
                "A view was created in {mode}{} {modified} with grad mode enabled. Given that this use case is ambiguous \
                 and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace \
                 either both inside the {guard} (if you don't want the inplace to be tracked) or both outside (if you \
                 want the inplace to be tracked).",
                if creation == Creation::NoGradMode { " mode" } else { "" },
            )));
        }
        Creation::InCustomFunction => {
            "This view was created inside a custom Function (or because an input was returned as-is) and the autograd \
             logic to handle view+inplace would override the custom backward associated with the custom Function, \
             leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the \
             custom Function."
        }
    };
    Err(Error::invalid_argument(opening + why))
}
