//! [`CopySlices`]: the node of a base that was changed through a view: see Note [In-place operations on views].

use aten::{Result, Tensor, TensorOptions};
use smallvec::smallvec;

use crate::formulas::view::as_strided_backward;
use crate::gradients::Gradients;
use crate::node::{Apply, Edge, Edges, Garbage, InputMeta, Inputs, NewNode, Node, next_sequence};
use crate::saved::TensorMeta;

/// Runs the node of an in-place operation on the part of a gradient that is the view's.
pub(crate) struct CopySlices {
    base: TensorMeta,
    view: TensorMeta,
    function: Option<Node>,
}

impl CopySlices {
    /// The new node of a base. `below` is where the gradient of the base before goes, `function` the node of the
    /// operation, whose first edge is that of the view.
    pub(crate) fn make(base: TensorMeta, view: TensorMeta, below: Option<Edge>, function: Node) -> Node {
        let mut edges = Edges::from_iter([below]);
        edges.extend(function.next_functions().iter().skip(1).cloned());
        NewNode {
            sequence: next_sequence(),
            edges,
            inputs: Inputs::One(InputMeta::like(&base)),
            body: Self { base, view, function: Some(function) },
        }
        .make()
    }
}

impl Apply for CopySlices {
    fn name(&self) -> &str {
        "CopySlices"
    }

    fn apply(&self, _: &Node, gradients: Gradients, keep: bool) -> Result<Gradients> {
        let Some(function) = &self.function else { return Err(crate::saved::already_freed()) };
        let count = function.next_functions().len().max(1);
        let Some(gradient) = gradients.into_iter().next().flatten() else {
            return Ok(smallvec![None; count]);
        };
        let base = &self.base;
        let options = TensorOptions::default().dtype(gradient.dtype()).device(gradient.device());
        let result = Tensor::empty_strided(&base.sizes(), &base.strides(), options)?;
        result.copy_(&gradient)?;
        let slice = view_of(&result, base, &self.view)?;
        let mut given = Gradients::new();
        function.apply(&mut smallvec![Some(slice.deep_clone()?)], keep, &mut given)?;
        match given.first_mut().and_then(Option::take) {
            Some(own) => slice.copy_(&own)?,
            None => slice.zero_()?,
        };
        if given.is_empty() {
            given.push(None);
        }
        given[0] = Some(result);
        Ok(given)
    }

    fn take_garbage(&mut self, garbage: &mut Vec<Garbage>) {
        if let Some(function) = self.function.take() {
            garbage.push(Garbage::Any(Box::new(function)));
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// How the elements of a view are those of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    Same,
    /// The base is complex, and the view has its parts.
    Parts,
    /// The base is real, and the view has pairs of its elements.
    Pairs,
}

impl Elements {
    /// `None` for other dtypes, of which no gradient is known.
    fn of(base: &TensorMeta, view: &TensorMeta) -> Option<Self> {
        let (base, view) = (base.dtype(), view.dtype());
        if base == view {
            Some(Self::Same)
        } else if base.is_complex() && base.to_real() == view {
            Some(Self::Parts)
        } else if view.is_complex() && view.to_real() == base {
            Some(Self::Pairs)
        } else {
            None
        }
    }
}

/// Whether in-place operations on such a view of such a base are followed.
pub(crate) fn is_followed(base: &TensorMeta, view: &TensorMeta) -> bool {
    Elements::of(base, view).is_some()
}

/// The view of `base` that another is of a tensor like it.
fn view_of(base: &Tensor, meta: &TensorMeta, view: &TensorMeta) -> Result<Tensor> {
    let strided = |base: &Tensor, meta: &TensorMeta, view: &TensorMeta| {
        let offset = base.storage_offset() + view.storage_offset() - meta.storage_offset();
        aten::ops::handles::AS_STRIDED.call(base, &view.sizes(), &view.strides(), Some(offset))
    };
    match Elements::of(meta, view) {
        Some(Elements::Parts) => {
            let same = strided(&base.view_as_real()?, &meta.as_real(view.dtype()), view)?;
            // Parts of a conjugate may be negated.
            if view.is_neg() { same._neg_view() } else { Ok(same) }
        }
        Some(Elements::Pairs) => {
            let same = strided(base, meta, &view.as_real(meta.dtype()))?.view_as_complex()?;
            if view.is_conj() { same.conj() } else { Ok(same) }
        }
        Some(Elements::Same) | None => meta.turned_to(view, &strided(base, meta, view)?),
    }
}

/// The node of a view whose base changed: the gradient of an `as_strided`.
struct AsStrided {
    base: TensorMeta,
    view: TensorMeta,
}

/// See Note [In-place operations on views].
pub(crate) fn view_node(base: TensorMeta, view: TensorMeta, below: Edge) -> Node {
    NewNode {
        sequence: next_sequence(),
        edges: Edges::from_iter([Some(below)]),
        inputs: Inputs::One(InputMeta::like(&view)),
        body: AsStrided { base, view },
    }
    .make()
}

impl Apply for AsStrided {
    fn name(&self) -> &str {
        "AsStridedBackward0"
    }

    fn apply(&self, _: &Node, gradients: Gradients, _: bool) -> Result<Gradients> {
        let Some(gradient) = gradients.into_iter().next().flatten() else { return Ok(smallvec![None]) };
        let (base, view) = (&self.base, &self.view);
        let backward = |gradient: &Tensor, base: &TensorMeta, view: &TensorMeta| {
            let offset = Some(view.storage_offset());
            as_strided_backward(gradient, base, &view.sizes(), &view.strides(), offset)
        };
        let given = match Elements::of(base, view) {
            Some(Elements::Parts) => {
                let gradient = if view.is_neg() { gradient.neg()? } else { gradient };
                backward(&gradient, &base.as_real(view.dtype()), view)?.view_as_complex()?
            }
            Some(Elements::Pairs) => {
                let gradient = if view.is_conj() { gradient.conj()? } else { gradient };
                backward(&gradient.resolve_conj()?.view_as_real()?, base, &view.as_real(base.dtype()))?
            }
            Some(Elements::Same) | None => backward(&view.turned_to(base, &gradient)?, base, view)?,
        };
        Ok(smallvec![Some(given)])
    }

    fn take_garbage(&mut self, _: &mut Vec<Garbage>) {}

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
