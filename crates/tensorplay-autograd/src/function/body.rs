//! [`FunctionBody`]: the node of a call of a user's function or operator.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use aten::{Error, Result, Tensor};

use super::context::{BackwardContext, GradOutputs};
use super::once;
use crate::gradients::Gradients;
use crate::meta::requires_grad;
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::node::{Apply, Garbage, Node};
use crate::saved::{Saved, SavedList};
use crate::unpacked::Unpacked;

/// What the node does.
pub(crate) trait Step: Send + Sync + 'static {
    const IS_ONCE_DIFFERENTIABLE: bool = false;

    fn backward(&self, ctx: &BackwardContext<'_>, grad_outputs: &GradOutputs) -> Result<Vec<Option<Tensor>>>;
}

/// Runs a step with what was saved for it.
pub(crate) struct FunctionBody<S: Step> {
    name: Arc<str>,
    step: Option<S>,
    /// `None` once it was given up.
    saved: Mutex<Option<SavedList>>,
    materializes: bool,
    /// The input whose edge is the first of the node; that of input 0 is in its place. It is 0, but for a function
    /// that changes a view: that of the view is where `CopySlices` looks.
    first: usize,
}

impl<S: Step> FunctionBody<S> {
    pub(crate) fn new(name: Arc<str>, step: S, saved: SavedList, materializes: bool, first: usize) -> Self {
        Self { name, step: Some(step), saved: Mutex::new(Some(saved)), materializes, first }
    }

    fn run(
        &self,
        step: &S,
        node: &Node,
        mut gradients: Gradients,
        saved: Option<&[Saved]>,
    ) -> Result<Gradients> {
        if self.materializes {
            for (gradient, meta) in gradients.iter_mut().zip(node.inputs()) {
                if gradient.is_none() {
                    *gradient = Some(meta.zeros()?);
                }
            }
        }
        let gradients = GradOutputs(gradients);
        let context = BackwardContext { node, unpacked: Unpacked::default(), saved, first: self.first };
        if !S::IS_ONCE_DIFFERENTIABLE {
            return self.fitted(node, step.backward(&context, &gradients)?);
        }
        let given = {
            let _no_grad = GradModeGuard::new(false);
            step.backward(&context, &gradients)?
        };
        let given = self.fitted(node, given)?;
        let depends = gradients.iter().flatten().any(requires_grad)
            || saved.is_some_and(|saved| saved.iter().any(Saved::requires_grad));
        if depends && is_grad_enabled() { once::refuse_again(given) } else { Ok(given) }
    }

    /// One gradient for each edge.
    fn fitted(&self, node: &Node, mut given: Vec<Option<Tensor>>) -> Result<Gradients> {
        let expected = node.next_functions().len();
        let count = given.len();
        if count < expected || given[expected..].iter().any(Option::is_some) {
            return Err(Error::invalid_argument(format!(
                "function {} returned an incorrect number of gradients (expected {expected}, got {count})",
                node.name()
            )));
        }
        given.truncate(expected);
        if self.first != 0 {
            given.swap(0, self.first);
        }
        Ok(given.into())
    }
}

impl<S: Step> Apply for FunctionBody<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, node: &Node, gradients: Gradients, keep: bool) -> Result<Gradients> {
        let Some(step) = &self.step else { return Err(crate::saved::already_freed()) };
        // The step is the user's code: it does not run under the lock.
        let saved: Option<SavedList> = {
            let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
            if keep {
                saved.as_ref().map(|saved| saved.iter().map(Saved::share).collect())
            } else {
                saved.take()
            }
        };
        self.run(step, node, gradients, saved.as_deref())
    }

    fn take_garbage(&mut self, garbage: &mut Vec<Garbage>) {
        if let Some(saved) = self.saved.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            garbage.push(Garbage::Saved(saved));
        }
        // Its fields may hold tensors, and these nodes.
        if let Some(step) = self.step.take() {
            garbage.push(Garbage::Any(Box::new(step)));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
