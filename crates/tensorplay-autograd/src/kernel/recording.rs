//! [`Recording`]: what is kept of a call between its beginning and the node that stands for it.

use aten::dispatch::{Arguments, Results};
use aten::{Result, Tensor};
use smallvec::SmallVec;

use crate::formula::{Formula, FormulaBody, Keep, Of};
use crate::mode::is_grad_enabled;
use crate::node::{Edge, InputMeta, NewNode, Node, NodeName, next_sequence, topological_above};
use crate::saved::{Saved, SavedList, SavedTensor, TensorMeta};
use crate::saved_hooks::check_stop;
use crate::view_track::edge_if_required;

/// A call that is being recorded.
#[derive(Default)]
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
        &mut self,
        formula: &Formula,
        arguments: Arguments<'_>,
        changed: Option<&Tensor>,
    ) -> Result<bool> {
        if !is_grad_enabled() || !self.find_edges(formula, arguments)? {
            return Ok(false);
        }
        for save in formula.saves {
            let saved = match save.of {
                Of::Argument(at) if save.users & self.wants != 0 => {
                    argument(arguments, at, save.keep, changed)?
                }
                _ => Saved::None,
            };
            self.saved.push(saved);
        }
        if !formula.fills_arguments {
            check_stop()?;
        }
        Ok(true)
    }

    /// Finds where gradients go; whether any is wanted.
    fn find_edges(&mut self, formula: &Formula, arguments: Arguments<'_>) -> Result<bool> {
        let mut lengths = formula.has_list().then(Vec::new);
        // Taken before the edges: views may make nodes for theirs.
        let mut sequence = None;
        for (which, target) in formula.targets.iter().enumerate() {
            let before = self.edges.len();
            let mut fault = None;
            arguments.tensors_of(target.argument, &mut |tensor| {
                let edge = if tensor.is_followed() {
                    sequence.get_or_insert_with(next_sequence);
                    edge_if_required(tensor)
                } else {
                    Ok(None)
                };
                match edge {
                    Ok(edge) => {
                        self.wants |= u32::from(edge.is_some()) << which;
                        self.edges.push(edge);
                    }
                    Err(error) => fault = Some(error),
                }
            });
            if let Some(error) = fault {
                return Err(error);
            }
            // An argument that is absent has an edge too: targets have their places.
            if self.edges.len() == before && !target.is_list {
                self.edges.push(None);
            }
            if let Some(lengths) = &mut lengths {
                lengths.push(self.edges.len() - before);
            }
        }
        self.lengths = lengths.map(Vec::into_boxed_slice);
        self.sequence = sequence.unwrap_or_default();
        Ok(self.wants != 0)
    }

    /// The node, with what the formula needs of the results.
    pub(crate) fn finish(&mut self, formula: &'static Formula, results: &Results<'_>) -> Result<Node> {
        let meta_of = |at| results.tensor(at).map_or_else(InputMeta::undefined, InputMeta::of);
        self.finish_with(
            formula,
            |which| results.tensor(which),
            || match results.len() {
                1 => [meta_of(0)].into(),
                len => (0..len).map(meta_of).collect(),
            },
        )
    }

    /// The node of an in-place call, whose result is the tensor it changed.
    pub(crate) fn finish_in_place(&mut self, formula: &'static Formula, changed: &Tensor) -> Result<Node> {
        let own = |which| (which == 0).then_some(changed);
        self.finish_with(formula, own, || [InputMeta::of(changed)].into())
    }

    #[inline]
    fn finish_with<'t>(
        &mut self,
        formula: &'static Formula,
        result: impl Fn(usize) -> Option<&'t Tensor>,
        inputs: impl FnOnce() -> SmallVec<[InputMeta; 1]>,
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
        let topological = topological_above(&self.edges);
        Ok(Node::made_of(topological, || NewNode {
            name: NodeName::Static(formula.name),
            sequence: self.sequence,
            edges: std::mem::take(&mut self.edges),
            inputs: inputs(),
            body: FormulaBody::new(formula, std::mem::take(&mut self.saved), self.lengths.take()),
        }))
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
