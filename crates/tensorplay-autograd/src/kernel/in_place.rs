//! Operators that change their first argument.

use aten::dispatch::local::is_inference_mode;
use aten::dispatch::{Arguments, Around, DispatchKey, DispatchKeySet, Results};
use aten::{Error, Result, Tensor};

use super::BELOW_AUTOGRAD;
use super::recording::Recording;
use crate::formula::Formula;
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, refusal};
use crate::view_track::{check_in_place, rebase_history, set_made_by};

/// The autograd kernel of an in-place operator.
pub(crate) struct InPlace {
    pub(crate) formula: &'static Formula,
    /// It changes sizes and strides and no element, as `transpose_` does: a view's base stays as it was made.
    pub(crate) is_geometric: bool,
}

impl Around for InPlace {
    type Record = Recording;

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    const PASSED_BY: bool = true;

    fn before(&self, recording: &mut Recording, arguments: Arguments<'_>) -> Result<bool> {
        if !is_grad_enabled() {
            return Ok(false);
        }
        let Some(changed) = first(arguments) else { return Ok(false) };
        let mut wanted = false;
        arguments.for_each_tensor(&mut |tensor| wanted |= requires_grad(tensor));
        check_in_place(&changed, wanted)?;
        recording.begin(self.formula, arguments, Some(&changed))
    }

    #[inline]
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        let _below = aten::dispatch::local::AutoDispatchBelowAutograd::new();
        call()
    }

    fn after(&self, recording: &mut Recording, arguments: Arguments<'_>, _: &mut Results<'_>) -> Result<()> {
        let Some(changed) = first(arguments) else { return Ok(()) };
        let (node, finished) = match recording.finish_in_place(self.formula, &changed) {
            Ok(None) => return Ok(()),
            Ok(Some(node)) => (node, Ok(())),
            // The tensor is changed: a backward call that meets it must not go on as if nothing had been.
            Err(error) => (refusal::lost(self.formula.name, &changed), Err(error)),
        };
        match self.is_geometric {
            true => set_made_by(&changed, Edge { node, input: 0 }),
            false => rebase_history(&changed, node)?,
        }
        finished
    }
}

pub(super) fn first(arguments: Arguments<'_>) -> Option<Tensor> {
    let mut first = None;
    arguments.tensors_of(0, &mut |tensor| {
        first.get_or_insert_with(|| tensor.clone());
    });
    first
}

/// The kernel of ADInplaceOrView of an in-place operator: tensors that were made in inference mode are changed in it
/// alone.
pub(crate) struct InferenceCheck;

impl Around for InferenceCheck {
    type Record = ();

    const BELOW: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AdInplaceOrView);

    #[inline]
    fn concerns(tensor: &Tensor) -> bool {
        tensor.is_inference()
    }

    fn before(&self, (): &mut (), arguments: Arguments<'_>) -> Result<bool> {
        if !is_inference_mode() && first(arguments).is_some_and(|tensor| tensor.is_inference()) {
            return Err(Error::invalid_argument(
                "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a \
                 normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
            ));
        }
        Ok(false)
    }
}
