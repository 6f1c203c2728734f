//! Operators that nobody has a formula for: calls are passed on, and a backward call that meets one is refused by
//! its name. No gradient is missing in silence.

use aten::dispatch::local::AutoDispatchBelowAutograd;
use aten::dispatch::{
    Backend, DispatchKey, DispatchKeySet, Functionality, Kernel, Library, OperatorHandle, Stack, Value,
};
use aten::{Error, Result, Tensor};
use smallvec::SmallVec;

use super::BELOW_AUTOGRAD;
use crate::gradients::Gradients;
use crate::meta::{Meta, meta, requires_grad};
use crate::mode::is_grad_enabled;
use crate::node::{Apply, Edge, Garbage, InputMeta, NewNode, Node, NodeName, next_sequence};
use crate::view_track::{check_in_place, gradient_edge, rebase_history, set_made_by};

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
    let edges = tensors.iter().map(gradient_edge).collect::<Result<SmallVec<_>>>()?;
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
    let node = NewNode {
        name: NodeName::Static("NotImplemented"),
        sequence,
        edges,
        inputs: results.iter().map(InputMeta::of).collect(),
        body: NotImplemented { operator: operator.name() },
    }
    .make();
    for (input, tensor) in results.iter().enumerate() {
        let edge = Edge { node: node.clone(), input };
        if written.iter().any(|own| own.is_same(tensor)) && results.len() == 1 {
            rebase_history(tensor, node.clone())?;
        } else if meta(tensor).is_some() {
            set_made_by(tensor, edge);
        } else {
            tensor.autograd_meta_or_init(|| Box::new(Meta::of_result(edge)));
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

struct NotImplemented {
    operator: &'static str,
}

impl Apply for NotImplemented {
    fn apply(&self, _: &Node, _: Gradients, _: bool) -> Result<Gradients> {
        let name = self.operator;
        Err(Error::not_implemented(match name.starts_with("aten::") {
            true => format!("derivative for {name} is not implemented"),
            false => format!(
                "Trying to backward through {name} but no autograd formula was registered. Please use \
                 register_autograd to add one."
            ),
        }))
    }

    fn take_garbage(&mut self, _: &mut Vec<Garbage>) {}

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The node of a tensor that was changed in place by an operator that then could not keep what its gradient needs.
pub(super) fn lost(name: &'static str, changed: &Tensor) -> Node {
    NewNode {
        name: NodeName::Static(name),
        sequence: next_sequence(),
        edges: SmallVec::from_elem(None, 1),
        inputs: [InputMeta::of(changed)].into_iter().collect(),
        body: Lost,
    }
    .make()
}

struct Lost;

impl Apply for Lost {
    fn apply(&self, node: &Node, _: Gradients, _: bool) -> Result<Gradients> {
        Err(Error::invalid_argument(format!(
            "{} changed a tensor in place and then failed to keep what its gradient needs: there is no gradient",
            node.name()
        )))
    }

    fn take_garbage(&mut self, _: &mut Vec<Garbage>) {}

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
