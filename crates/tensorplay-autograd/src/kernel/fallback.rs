//! Operators that nobody has a formula for: calls are passed on, and a backward call that meets one is refused by
//! its name. No gradient is missing in silence.

use aten::dispatch::local::AutoDispatchBelowAutograd;
use aten::dispatch::{
    Backend, DispatchKey, DispatchKeySet, Functionality, Kernel, Library, OperatorHandle, Stack, Value,
};
use aten::{Result, Tensor};
use smallvec::SmallVec;

use super::BELOW_AUTOGRAD;
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, next_sequence, refusal};
use crate::view_track::{check_in_place, gradient_edge, rebase_history, set_result};

pub(super) fn register(library: &mut Library<'_>) -> Result<()> {
    let mut keys: Vec<DispatchKey> =
        Backend::ALL.iter().map(|backend| DispatchKey::new(Functionality::Autograd, *backend)).collect();
    keys.push(DispatchKey::AutogradOther);
    library.fallback(&keys, Kernel::boxed(call).named("autograd: no formula"))
}

fn call(operator: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let below = keys & BELOW_AUTOGRAD;
    let mut tensors: SmallVec<[Tensor; 4]> = SmallVec::new();
    if is_grad_enabled() {
        stack.iter().for_each(|value| {
            value.for_each_tensor(&mut |tensor| {
                if requires_grad(tensor) {
                    tensors.push(tensor.clone());
                }
            });
        });
    }
    if tensors.is_empty() {
        return operator.redispatch_boxed(below, stack);
    }
    let edges = tensors.iter().map(gradient_edge).collect::<Result<_>>()?;
    let sequence = next_sequence();
    let written = written(operator, stack);
    written.iter().try_for_each(|tensor| check_in_place(tensor, true))?;
    {
        let _below = AutoDispatchBelowAutograd::new();
        operator.redispatch_boxed(below, stack)?;
    }
    let mut results: Vec<Tensor> = Vec::new();
    stack.iter().for_each(|value| value.for_each_tensor(&mut |tensor| results.push(tensor.clone())));
    results.extend(
        written
            .iter()
            .filter(|own| !results.iter().any(|other| other.is_same(own)))
            .cloned()
            .collect::<Vec<_>>(),
    );
    results.retain(|tensor| tensor.dtype().is_floating_point() || tensor.dtype().is_complex());
    if results.is_empty() {
        return Ok(());
    }
    let is_only = results.len() == 1;
    let node = refusal::no_formula(operator.name(), sequence, edges, &results);
    for (input, tensor) in results.iter_mut().enumerate() {
        if is_only && written.iter().any(|own| own.is_same(tensor)) {
            rebase_history(tensor, node.clone())?;
        } else {
            set_result(tensor, Edge { node: node.clone(), input });
        }
    }
    Ok(())
}

/// The arguments that the schema says are written.
fn written(operator: OperatorHandle, stack: &Stack) -> Vec<Tensor> {
    let Some(schema) = operator.schema() else { return Vec::new() };
    let is_written = |at: usize| schema.arguments()[at].alias.as_ref().is_some_and(|alias| alias.is_write);
    let mut written = Vec::new();
    for (at, value) in stack.iter().enumerate().take(schema.arguments().len()) {
        if let (true, Value::Tensor(tensor)) = (is_written(at), value) {
            written.push(tensor.clone());
        }
    }
    written
}
