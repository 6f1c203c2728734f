//! [`Recording`]: what is kept of a call between its beginning and the node that stands for it.

use aten::dispatch::{Arguments, Results, Value};
use aten::{Result, Tensor};

use crate::formula::{Formula, FormulaBody, Keep, Of};
use crate::mode::is_grad_enabled;
use crate::node::{Draft, Edge, InputMeta, Inputs, NewEdges, Node};
use crate::saved::{Saved, SavedTensor, TensorMeta};
use crate::saved_hooks::check_stop;
use crate::view_track::edge_if_required;

/// A call that is being recorded.
#[derive(Default)]
pub(crate) struct Recording {
    /// The node that will stand for it.
    draft: Option<Draft>,
    /// Bit `i` says that the gradient of target `i` is wanted.
    wants: u32,
}

impl Recording {
    /// Begins, if a gradient of an argument is wanted. `changed` is the tensor that the call writes: where its
    /// elements are needed, they are copied.
    pub(crate) fn begin(
        &mut self,
        formula: &'static Formula,
        arguments: Arguments<'_>,
        changed: Option<&Tensor>,
    ) -> Result<bool> {
        if !is_grad_enabled() {
            return Ok(false);
        }
        // Made before the edges are found: views may make nodes for theirs, which are older then.
        let (mut draft, wants) =
            Draft::new(formula, |edges, body| find_edges(edges, body, formula, arguments));
        self.wants = wants?;
        if self.wants == 0 {
            return Ok(false);
        }
        save_arguments(draft.body(), formula, arguments, changed, self.wants)?;
        if !formula.fills_arguments {
            check_stop()?;
        }
        self.draft = Some(draft);
        Ok(true)
    }

    /// The node, with what the formula needs of the results; nothing if none was begun.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        formula: &'static Formula,
        results: &Results<'_>,
    ) -> Result<Option<Node>> {
        let meta_of = |at| results.tensor(at).map_or_else(InputMeta::undefined, InputMeta::of);
        let metas = || match results.len() {
            1 => Inputs::One(meta_of(0)),
            len => (0..len).map(meta_of).collect(),
        };
        self.finish_with(formula, |which| results.tensor(which), metas)
    }

    /// The node of an in-place call, whose result is the tensor it changed.
    pub(crate) fn finish_in_place(
        &mut self,
        formula: &'static Formula,
        changed: &Tensor,
    ) -> Result<Option<Node>> {
        let own = |which| (which == 0).then_some(changed);
        self.finish_with(formula, own, || Inputs::One(InputMeta::of(changed)))
    }

    #[inline]
    fn finish_with<'t>(
        &mut self,
        formula: &'static Formula,
        result: impl Fn(usize) -> Option<&'t Tensor>,
        metas: impl FnOnce() -> Inputs,
    ) -> Result<Option<Node>> {
        let Some(mut draft) = self.draft.take() else { return Ok(None) };
        if formula.saves_results {
            save_results(draft.body(), formula, result, self.wants)?;
        }
        check_stop()?;
        Ok(Some(draft.finish(metas)))
    }
}

/// Finds where gradients go: bit `i` says that that of target `i` is wanted. Each tensor of a list has an edge.
#[inline]
fn find_edges(
    edges: &mut NewEdges<'_>,
    body: &mut FormulaBody,
    formula: &Formula,
    arguments: Arguments<'_>,
) -> Result<u32> {
    if formula.has_list {
        return find_edges_of_lists(edges, body, formula, arguments);
    }
    let mut wants = 0;
    for (which, target) in formula.targets.iter().enumerate() {
        // A tensor that is absent has an edge too: targets have their places.
        let edge = arguments.tensor(target.argument).map_or(Ok(None), edge_if_required)?;
        wants |= u32::from(edge.is_some()) << which;
        edges.push(edge);
    }
    Ok(wants)
}

/// The same, where a target is a list: the node knows then how many edges each has.
#[inline(never)]
fn find_edges_of_lists(
    edges: &mut NewEdges<'_>,
    body: &mut FormulaBody,
    formula: &Formula,
    arguments: Arguments<'_>,
) -> Result<u32> {
    let (mut wants, mut lengths) = (0, Vec::new());
    for (which, target) in formula.targets.iter().enumerate() {
        let (mut count, mut found) = (0, Ok(()));
        let mut add = |edge: Option<Edge>| {
            wants |= u32::from(edge.is_some()) << which;
            edges.push(edge);
            count += 1;
        };
        match target.is_list {
            true => arguments.tensors_of(target.argument, &mut |tensor| match edge_if_required(tensor) {
                Ok(edge) => add(edge),
                Err(error) => found = Err(error),
            }),
            false => add(arguments.tensor(target.argument).map_or(Ok(None), edge_if_required)?),
        }
        found?;
        lengths.push(count);
    }
    body.set_lengths(lengths.into_boxed_slice());
    Ok(wants)
}

/// Keeps what is needed of the arguments, and places for what will be of the results.
#[inline]
fn save_arguments(
    body: &mut FormulaBody,
    formula: &Formula,
    arguments: Arguments<'_>,
    changed: Option<&Tensor>,
    wants: u32,
) -> Result<()> {
    if formula.saves_tensors {
        body.will_keep_tensors();
    }
    let list = body.saved();
    for save in formula.saves {
        list.push(match save.of {
            Of::Argument(at) if save.users & wants != 0 => argument(arguments, at, save.keep, changed)?,
            _ => Saved::None,
        });
    }
    Ok(())
}

#[inline(never)]
fn save_results<'t>(
    body: &mut FormulaBody,
    formula: &Formula,
    result: impl Fn(usize) -> Option<&'t Tensor>,
    wants: u32,
) -> Result<()> {
    for (saved, save) in body.saved().iter_mut().zip(formula.saves) {
        if let Of::Result(which) = save.of
            && save.users & wants != 0
            && let Some(tensor) = result(which)
        {
            *saved = kept_result(tensor, which, save.keep)?;
        }
    }
    Ok(())
}

fn argument(arguments: Arguments<'_>, at: usize, keep: Keep, changed: Option<&Tensor>) -> Result<Saved> {
    let save = |tensor: &Tensor| match changed {
        // The copy has the history of what it is a copy of: a second derivative goes there.
        Some(changed) if changed.is_same(tensor) => SavedTensor::argument(&tensor.deep_clone()?),
        _ => SavedTensor::argument(tensor),
    };
    match keep {
        Keep::Value => {
            let value = arguments.boxed(at);
            let Value::Scalar(number) = value else { return Ok(Saved::Value(value)) };
            // A number need not end.
            std::mem::forget(value);
            Ok(Saved::Number(number))
        }
        Keep::Tensor | Keep::Optional => {
            let mut saved = Ok(Saved::None);
            arguments.tensors_of(at, &mut |tensor| saved = save(tensor).map(Saved::Tensor));
            saved
        }
        Keep::Meta => {
            let mut saved = Saved::None;
            arguments.tensors_of(at, &mut |tensor| saved = Saved::Meta(Box::new(TensorMeta::of(tensor))));
            Ok(saved)
        }
        Keep::Metas => {
            let mut metas = Vec::new();
            arguments.tensors_of(at, &mut |tensor| metas.push(TensorMeta::of(tensor)));
            Ok(Saved::Metas(metas.into()))
        }
        Keep::Tensors => {
            let Value::List(list) = arguments.boxed(at) else { return Ok(Saved::None) };
            let mut tensors = Vec::with_capacity(list.len());
            for value in list {
                tensors.push(match value {
                    Value::Tensor(tensor) => Some(save(&tensor)?),
                    _ => None,
                });
            }
            Ok(Saved::Tensors(tensors.into()))
        }
    }
}

fn kept_result(tensor: &Tensor, which: usize, keep: Keep) -> Result<Saved> {
    match keep {
        Keep::Meta => Ok(Saved::Meta(Box::new(TensorMeta::of(tensor)))),
        _ => SavedTensor::result(tensor, which).map(Saved::Tensor),
    }
}
