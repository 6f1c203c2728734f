//! Operators that make new tensors or views.

use aten::dispatch::local::is_inference_mode;
use aten::dispatch::{Arguments, Around, DispatchKey, DispatchKeySet, Results};
use aten::{Result, Tensor};

use super::BELOW_AUTOGRAD;
use super::recording::Recording;
use crate::formula::Formula;
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, Node};
use crate::view_track::{self, Creation, set_result};

/// The autograd kernel of an operator that makes new tensors.
pub(crate) struct Functional {
    pub(crate) formula: &'static Formula,
}

impl Around for Functional {
    type Record = Recording;

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    const PASSED_BY: bool = true;

    #[inline]
    fn before(&self, recording: &mut Recording, arguments: Arguments<'_>) -> Result<bool> {
        recording.begin(self.formula, arguments, None)
    }

    #[inline]
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        let _below = aten::dispatch::local::AutoDispatchBelowAutograd::new();
        call()
    }

    #[inline]
    fn after(&self, recording: &mut Recording, _: Arguments<'_>, results: &mut Results<'_>) -> Result<()> {
        record(self.formula, recording, results)
    }
}

/// The autograd kernel of an operator that makes views of its first argument.
pub(crate) struct View {
    pub(crate) formula: &'static Formula,
    /// What it makes is a list.
    pub(crate) is_multiple: bool,
}

impl Around for View {
    type Record = Recording;

    // The kernel of ADInplaceOrView links views where this one is passed by.
    const BELOW: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AdInplaceOrView);

    const PASSED_BY: bool = true;

    // A view of what needs no gradient is one all the same: its base may be written with what needs one.
    const MARKS: bool = true;

    #[inline]
    fn mark(&self, of: &Tensor, made: &mut Tensor) {
        view_track::link(made, of, self.creation());
    }

    fn before(&self, recording: &mut Recording, arguments: Arguments<'_>) -> Result<bool> {
        let mut needs_record = false;
        arguments.tensors_of(0, &mut |tensor| needs_record = requires_grad(tensor));
        if needs_record {
            recording.begin(self.formula, arguments, None)?;
        }
        Ok(true)
    }

    #[inline]
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        let _below = aten::dispatch::local::AutoDispatchBelowADInplaceOrView::new();
        call()
    }

    fn after(
        &self,
        recording: &mut Recording,
        arguments: Arguments<'_>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        link(arguments, results, self.creation());
        record(self.formula, recording, results)
    }
}

impl View {
    #[inline]
    fn creation(&self) -> Creation {
        match (is_grad_enabled(), self.is_multiple) {
            (false, _) => Creation::NoGradMode,
            (true, true) => Creation::MultiOutput,
            (true, false) => Creation::Default,
        }
    }
}

fn link(arguments: Arguments<'_>, results: &mut Results<'_>, creation: Creation) {
    arguments.tensors_of(0, &mut |base| {
        for at in 0..results.len() {
            if let Some(view) = results.tensor_mut(at) {
                view_track::link(view, base, creation);
            }
        }
    });
}

/// The kernel of ADInplaceOrView of an operator that makes views, for inference mode, where autograd's is passed by:
/// the views that are made there of tensors that are followed are marked.
pub(crate) struct InferenceView;

impl Around for InferenceView {
    type Record = ();

    const BELOW: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AdInplaceOrView);

    #[inline]
    fn concerns(_: &Tensor) -> bool {
        is_inference_mode()
    }

    fn before(&self, (): &mut (), _: Arguments<'_>) -> Result<bool> {
        Ok(true)
    }

    fn after(&self, (): &mut (), arguments: Arguments<'_>, results: &mut Results<'_>) -> Result<()> {
        link(arguments, results, Creation::InferenceMode);
        Ok(())
    }
}

/// Makes the node of the call, if it is recorded, the one that made its results.
fn record(formula: &'static Formula, recording: &mut Recording, results: &mut Results<'_>) -> Result<()> {
    let Some(node) = recording.finish(formula, results)? else { return Ok(()) };
    // Almost all calls have one result, which gets the handle itself.
    for at in 1..results.len() {
        set_if_differentiable(formula, results, at, || node.clone());
    }
    set_if_differentiable(formula, results, 0, || node);
    Ok(())
}

#[inline]
fn set_if_differentiable(
    formula: &Formula,
    results: &mut Results<'_>,
    at: usize,
    node: impl FnOnce() -> Node,
) {
    if let Some(tensor) = results.tensor_mut(at)
        && formula.is_differentiable(at, tensor)
    {
        set_result(tensor, Edge { node: node(), input: at });
    }
}
