//! [`Recording`]: what is kept of a call between its beginning and the node that stands for it.

use aten::dispatch::{Arguments, Results};
use aten::{Result, Tensor};
use smallvec::SmallVec;

use crate::formula::{Formula, FormulaBody, Keep, Of};
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, InputMeta, NewNode, Node, NodeName, next_sequence};
use crate::saved::{Saved, SavedList, SavedTensor, TensorMeta};
use crate::saved_hooks::check_stop;
use crate::view_track::gradient_edge;

/// Whether a call with the tensor may have to be recorded.
#[inline]
pub(crate) fn concerns(tensor: &Tensor) -> bool {
    tensor.autograd_meta().is_some() || tensor.view_base().is_some_and(|base| base.autograd_meta().is_some())
}

/// A call that is being recorded.
pub(crate) struct Recording {
    sequence: u64,
    edges: SmallVec<[Option<Edge>; 2]>,
    saved: SavedList,
    /// How many edges each target has, where one of them is a list.
    lengths: Option<Box<[usize]>>,
}

impl Recording {
    /// Begins, if a gradient of an argument is wanted. `changed` is the tensor that the call writes: where its
    /// elements are needed, they are copied.
    pub(crate) fn begin(
        formula: &Formula,
        arguments: Arguments<'_>,
        changed: Option<&Tensor>,
    ) -> Result<Option<Self>> {
        if !is_grad_enabled() {
            return Ok(None);
        }
        let mut wanted = false;
        for target in formula.targets {
            arguments.tensors_of(target.argument, &mut |tensor| wanted |= requires_grad(tensor));
        }
        if !wanted {
            return Ok(None);
        }
        Self::of(formula, arguments, changed).map(Some)
    }

    fn of(formula: &Formula, arguments: Arguments<'_>, changed: Option<&Tensor>) -> Result<Self> {
        let sequence = next_sequence();
        let mut edges = SmallVec::new();
        let mut lengths = formula.has_list().then(Vec::new);
        // Which targets want their gradient.
        let mut wants = 0_u32;
        for (which, target) in formula.targets.iter().enumerate() {
            let before = edges.len();
            let mut fault = None;
            arguments.tensors_of(target.argument, &mut |tensor| {
                let edge = if requires_grad(tensor) { gradient_edge(tensor) } else { Ok(None) };
                match edge {
                    Ok(edge) => {
                        wants |= u32::from(edge.is_some()) << which;
                        edges.push(edge);
                    }
                    Err(error) => fault = Some(error),
                }
            });
            if let Some(error) = fault {
                return Err(error);
            }
            // An argument that is absent has an edge too: targets have their places.
            if edges.len() == before && !target.is_list {
                edges.push(None);
            }
            if let Some(lengths) = &mut lengths {
                lengths.push(edges.len() - before);
            }
        }
        let mut saved = SmallVec::new();
        for save in formula.saves {
            saved.push(match save.of {
                Of::Argument(at) if save.users & wants != 0 => argument(arguments, at, save.keep, changed)?,
                _ => Saved::None,
            });
        }
        if !formula.fills_arguments {
            check_stop()?;
        }
        Ok(Self { sequence, edges, saved, lengths: lengths.map(Vec::into_boxed_slice) })
    }

    /// The node, with what the formula needs of the results.
    pub(crate) fn finish(mut self, formula: &'static Formula, results: &Results<'_>) -> Result<Node> {
        let wants = self.wants(formula);
        for (save, slot) in formula.saves.iter().zip(&mut self.saved) {
            if let Of::Result(which) = save.of
                && save.users & wants != 0
                && let Some(tensor) = results.tensor(which)
            {
                *slot = kept_result(tensor, which, save.keep)?;
            }
        }
        let inputs = (0..results.len())
            .map(|at| results.tensor(at).map_or_else(InputMeta::undefined, InputMeta::of))
            .collect();
        check_stop()?;
        Ok(self.into_node(formula, inputs))
    }

    /// The node of an in-place call, whose result is the tensor it changed.
    pub(crate) fn finish_in_place(mut self, formula: &'static Formula, changed: &Tensor) -> Result<Node> {
        let wants = self.wants(formula);
        for (save, slot) in formula.saves.iter().zip(&mut self.saved) {
            if matches!(save.of, Of::Result(0)) && save.users & wants != 0 {
                *slot = kept_result(changed, 0, save.keep)?;
            }
        }
        check_stop()?;
        Ok(self.into_node(formula, [InputMeta::of(changed)].into_iter().collect()))
    }

    fn into_node(self, formula: &'static Formula, inputs: SmallVec<[InputMeta; 1]>) -> Node {
        NewNode {
            name: NodeName::Static(formula.name),
            sequence: self.sequence,
            edges: self.edges,
            inputs,
            body: FormulaBody::new(formula, self.saved, self.lengths),
        }
        .make()
    }

    fn wants(&self, formula: &Formula) -> u32 {
        let mut at = 0;
        let mut wants = 0;
        for which in 0..formula.targets.len() {
            let length = self.lengths.as_ref().map_or(1, |lengths| lengths[which]);
            wants |= u32::from(self.edges[at..at + length].iter().any(Option::is_some)) << which;
            at += length;
        }
        wants
    }
}

fn argument(arguments: Arguments<'_>, at: usize, keep: Keep, changed: Option<&Tensor>) -> Result<Saved> {
    let save = |tensor: &Tensor| match changed {
        // The copy has the history of what it is a copy of: a second derivative goes there.
        Some(changed) if changed.is_same(tensor) => SavedTensor::argument(&tensor.deep_clone()?),
        _ => SavedTensor::argument(tensor),
    };
    match keep {
        Keep::Value => Ok(Saved::Value(arguments.boxed(at))),
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
            let aten::dispatch::Value::List(list) = arguments.boxed(at) else { return Ok(Saved::None) };
            let mut tensors = Vec::with_capacity(list.len());
            for value in list {
                tensors.push(match value {
                    aten::dispatch::Value::Tensor(tensor) => Some(save(&tensor)?),
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
