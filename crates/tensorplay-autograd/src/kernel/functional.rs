//! Operators that make new tensors or views.

use aten::dispatch::local::is_inference_mode;
use aten::dispatch::{Arguments, Around, DispatchKey, DispatchKeySet, Results};
use aten::{Result, Tensor};

use super::BELOW_AUTOGRAD;
use super::recording::{self, Recording};
use crate::formula::Formula;
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;
use crate::node::Edge;
use crate::view_track::{self, Creation, set_result};

/// The autograd kernel of an operator that makes new tensors.
pub(crate) struct Functional {
    pub(crate) formula: &'static Formula,
}

impl Around for Functional {
    type Record = Recording;

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    #[inline]
    fn concerns(tensor: &Tensor) -> bool {
        recording::concerns(tensor)
    }

    fn before(&self, arguments: Arguments<'_>) -> Result<Option<Recording>> {
        Recording::begin(self.formula, arguments, None)
    }

    #[inline]
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        let _below = aten::dispatch::local::AutoDispatchBelowAutograd::new();
        call()
    }

    fn after(&self, recording: Recording, _: Arguments<'_>, results: &mut Results<'_>) -> Result<()> {
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
    type Record = Option<Recording>;

    // The kernel of ADInplaceOrView links views where this one is passed by.
    const BELOW: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AdInplaceOrView);

    #[inline]
    fn concerns(tensor: &Tensor) -> bool {
        recording::concerns(tensor)
    }

    // A view of what needs no gradient is one all the same: its base may be written with what needs one.
    const MARKS: bool = true;

    #[inline]
    fn mark(&self, of: &Tensor, made: &mut Tensor) {
        view_track::link(made, of, self.creation());
    }

    fn before(&self, arguments: Arguments<'_>) -> Result<Option<Option<Recording>>> {
        let mut needs_record = false;
        arguments.tensors_of(0, &mut |tensor| needs_record = requires_grad(tensor));
        let recording = if needs_record { Recording::begin(self.formula, arguments, None)? } else { None };
        Ok(Some(recording))
    }

    #[inline]
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        let _below = aten::dispatch::local::AutoDispatchBelowADInplaceOrView::new();
        call()
    }

    fn after(
        &self,
        recording: Option<Recording>,
        arguments: Arguments<'_>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        link(arguments, results, self.creation());
        match recording {
            Some(recording) => record(self.formula, recording, results),
            None => Ok(()),
        }
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

    fn before(&self, _: Arguments<'_>) -> Result<Option<()>> {
        Ok(Some(()))
    }

    fn after(&self, (): (), arguments: Arguments<'_>, results: &mut Results<'_>) -> Result<()> {
        link(arguments, results, Creation::InferenceMode);
        Ok(())
    }
}

/// Makes the node of the call the one that made its results.
fn record(formula: &'static Formula, recording: Recording, results: &Results<'_>) -> Result<()> {
    let node = recording.finish(formula, results)?;
    for at in 0..results.len() {
        let Some(tensor) = results.tensor(at) else { continue };
        if !formula.is_differentiable(at, tensor) {
            continue;
        }
        set_result(tensor, Edge { node: node.clone(), input: at });
    }
    Ok(())
}
