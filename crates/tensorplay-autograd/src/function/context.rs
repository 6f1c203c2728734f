//! What a [`Function`](super::Function) has besides tensors: [`ForwardContext`] and [`BackwardContext`] (`ctx`).

use std::fmt;

use aten::{Error, Result, Tensor};

use crate::gradients::Gradients;
use crate::meta::requires_grad;
use crate::mode::GradModeGuard;
use crate::node::Node;
use crate::saved::{Saved, already_freed};
use crate::unpacked::Unpacked;
use crate::view_track::check_in_place;

/// The tensors that are to be kept.
pub(super) type SaveList = Vec<Option<Tensor>>;

/// What is said of a call while it runs (`ctx` of `forward`).
#[derive(Debug)]
pub struct ForwardContext<'a> {
    inputs: &'a [&'a Tensor],
    is_recorded: bool,
    marks: Marks,
}

/// What was said.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(super) saved: SaveList,
    pub(super) dirty: Vec<Tensor>,
    pub(crate) non_differentiable: Vec<Tensor>,
    pub(crate) materializes: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self { saved: Vec::new(), dirty: Vec::new(), non_differentiable: Vec::new(), materializes: true }
    }
}

impl Marks {
    pub(crate) fn save<'t>(&mut self, tensors: impl IntoIterator<Item = impl Into<Option<&'t Tensor>>>) {
        self.saved = tensors.into_iter().map(|tensor| tensor.into().cloned()).collect();
    }
}

impl<'a> ForwardContext<'a> {
    pub(super) fn new(inputs: &'a [&'a Tensor], is_recorded: bool) -> Self {
        Self { inputs, is_recorded, marks: Marks::default() }
    }

    pub(super) fn into_marks(self) -> Marks {
        self.marks
    }

    /// Keeps tensors for the backward step: inputs, results, or others; `None` holds a place. A second call replaces
    /// the first. A tensor that is changed in place between its saving and its use is an error there.
    pub fn save_for_backward<'t>(
        &mut self,
        tensors: impl IntoIterator<Item = impl Into<Option<&'t Tensor>>>,
    ) {
        self.marks.save(tensors);
    }

    /// Says that an input is changed in place. It has to be returned. Best called before the change, which this may
    /// refuse.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a leaf that requires a gradient, for a
    /// view that may not be changed, and for a tensor that is no input.
    ///
    /// Differs from PyTorch: there the last is a warning, and the others are found after the change.
    pub fn mark_dirty(&mut self, input: &Tensor) -> Result<()> {
        if !self.inputs.iter().any(|own| own.is_same(input)) {
            return Err(Error::invalid_argument(
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated \
                 should be passed to ctx.mark_dirty().",
            ));
        }
        if self.is_recorded {
            let _grad = GradModeGuard::new(true);
            let is_leaf = matches!(crate::view_track::made_by(input), Ok(None));
            if is_leaf && input.view_base().is_none() && requires_grad(input) {
                return Err(Error::invalid_argument(
                    "a leaf Variable that requires grad has been used in an in-place operation.",
                ));
            }
            check_in_place(input, true)?;
        }
        if !self.marks.dirty.iter().any(|own| own.is_same(input)) {
            self.marks.dirty.push(input.clone());
        }
        Ok(())
    }

    /// Says that a result has no gradient.
    pub fn mark_non_differentiable(&mut self, result: &Tensor) {
        self.marks.non_differentiable.push(result.clone());
    }

    /// Whether the backward step has zeros in the place of gradients that nothing gave: yes, unless it is said here.
    pub fn set_materialize_grads(&mut self, materializes: bool) {
        self.marks.materializes = materializes;
    }

    /// Whether an input requires a gradient.
    pub fn needs_input_grad(&self, at: usize) -> bool {
        self.inputs.get(at).is_some_and(|input| requires_grad(input))
    }
}

/// What a backward step has besides gradients (`ctx` of `backward`).
pub struct BackwardContext<'a> {
    pub(super) node: &'a Node,
    pub(super) unpacked: Unpacked,
    /// `None` once it was given up.
    pub(super) saved: Option<&'a [Saved]>,
    /// The place of the input whose edge is the first: see [`FunctionBody`](super::FunctionBody).
    pub(super) first: usize,
}

impl BackwardContext<'_> {
    /// A tensor that was saved.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when there is none in this place, when it was
    /// changed in place, or when what was saved has been given up; what a hook of saved tensors returns.
    pub fn saved_tensor(&self, at: usize) -> Result<Tensor> {
        self.saved_optional(at)?.ok_or_else(|| {
            Error::invalid_argument(format!("{} saved no tensor in place {at}", self.node.name()))
        })
    }

    /// As [`saved_tensor`](Self::saved_tensor); `None` where `None` was saved.
    ///
    /// # Errors
    /// As there.
    pub fn saved_optional(&self, at: usize) -> Result<Option<Tensor>> {
        match self.saved.ok_or_else(already_freed)?.get(at) {
            Some(Saved::Tensor(saved)) => self.unpacked.unpack(saved, self.node).map(Some),
            Some(_) => Ok(None),
            None => Err(Error::index(format!("{} saved no tensor in place {at}", self.node.name()))),
        }
    }

    /// All that was saved (`saved_tensors`).
    ///
    /// # Errors
    /// As [`saved_tensor`](Self::saved_tensor).
    pub fn saved_tensors(&self) -> Result<Vec<Option<Tensor>>> {
        (0..self.saved.ok_or_else(already_freed)?.len()).map(|at| self.saved_optional(at)).collect()
    }

    /// Whether the gradient of an input is wanted.
    pub fn needs_input_grad(&self, at: usize) -> bool {
        let place = match at {
            0 => self.first,
            at if at == self.first => 0,
            at => at,
        };
        self.node.next_functions().get(place).is_some_and(Option::is_some)
    }
}

impl fmt::Debug for BackwardContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackwardContext").field("node", self.node).finish_non_exhaustive()
    }
}

/// The gradients of the results of a call.
#[derive(Debug)]
pub struct GradOutputs(pub(super) Gradients);

impl GradOutputs {
    /// One for each result.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there were no results.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The gradient of a result.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) where it is undefined, which happens after
    /// [`set_materialize_grads(false)`](ForwardContext::set_materialize_grads) alone.
    pub fn tensor(&self, at: usize) -> Result<&Tensor> {
        self.optional(at)
            .ok_or_else(|| Error::invalid_argument(format!("the gradient of result {at} is undefined")))
    }

    /// The gradient of a result; `None` where it is undefined, which stands for zeros.
    pub fn optional(&self, at: usize) -> Option<&Tensor> {
        self.0.get(at)?.as_ref()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Tensor>> {
        self.0.iter().map(Option::as_ref)
    }
}
