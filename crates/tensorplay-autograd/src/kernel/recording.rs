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
    /// Bit `i` says that the gradient of target `i` is wanted.
    wants: u32,
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
        let mut edges = SmallVec::new();
        let mut lengths = formula.has_list().then(Vec::new);
        let mut wants = 0_u32;
        // Taken before the edges: views may make nodes for theirs.
        let mut sequence = None;
        for (which, target) in formula.targets.iter().enumerate() {
            let before = edges.len();
            let mut fault = None;
            arguments.tensors_of(target.argument, &mut |tensor| {
                let edge = if requires_grad(tensor) {
                    sequence.get_or_insert_with(next_sequence);
                    gradient_edge(tensor)
                } else {
                    Ok(None)
                };
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
        let Some(sequence) = sequence else { return Ok(None) };
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
        Ok(Some(Self { sequence, edges, saved, lengths: lengths.map(Vec::into_boxed_slice), wants }))
    }

    /// The node, with what the formula needs of the results.
    pub(crate) fn finish(self, formula: &'static Formula, results: &Results<'_>) -> Result<Node> {
        let inputs = (0..results.len())
            .map(|at| results.tensor(at).map_or_else(InputMeta::undefined, InputMeta::of))
            .collect();
        self.finish_with(formula, |which| results.tensor(which), inputs)
    }

    /// The node of an in-place call, whose result is the tensor it changed.
    pub(crate) fn finish_in_place(self, formula: &'static Formula, changed: &Tensor) -> Result<Node> {
        let inputs = [InputMeta::of(changed)].into_iter().collect();
        self.finish_with(formula, |which| (which == 0).then_some(changed), inputs)
    }

    fn finish_with<'t>(
        mut self,
        formula: &'static Formula,
        result: impl Fn(usize) -> Option<&'t Tensor>,
        inputs: SmallVec<[InputMeta; 1]>,
    ) -> Result<Node> {
        for (save, slot) in formula.saves.iter().zip(&mut self.saved) {
            if let Of::Result(which) = save.of
                && save.users & self.wants != 0
                && let Some(tensor) = result(which)
            {
                *slot = kept_result(tensor, which, save.keep)?;
            }
        }
        check_stop()?;
        Ok(self.into_node(formula, inputs))
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
