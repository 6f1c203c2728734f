//! What a call of a [`Function`](super::Function) returns: its results, made by its node.

use std::sync::Arc;

use aten::{Error, Result, Tensor};
use smallvec::SmallVec;

use super::body::{FunctionBody, Step};
use super::context::{Marks, SaveList};
use crate::meta::requires_grad;
use crate::node::{Edge, Edges, InputMeta, NewNode, Node};
use crate::saved::{self, Saved, SavedList, SavedTensor};
use crate::view_track::{self, Creation, rebase_history, set_made_by, set_result};

/// A call whose results are there.
pub(crate) struct Call<'a> {
    pub(crate) inputs: &'a [&'a Tensor],
    /// Of the inputs; `None` for a call that is not recorded.
    pub(crate) edges: Option<Edges>,
    pub(crate) sequence: u64,
    pub(crate) name: &'a dyn Fn() -> Arc<str>,
}

/// What a result is.
#[derive(Clone, Copy, Debug)]
struct Kind {
    is_input: bool,
    is_dirty: bool,
    is_differentiable: bool,
}

impl Call<'_> {
    /// Makes the node, if the call is recorded, and the results its own.
    pub(crate) fn finish<S: Step>(
        mut self,
        step: S,
        marks: Marks,
        results: Vec<Tensor>,
    ) -> Result<Vec<Tensor>> {
        let has = |list: &[Tensor], tensor: &Tensor| list.iter().any(|own| own.is_same(tensor));
        if !marks.dirty.iter().all(|dirty| has(&results, dirty)) {
            return Err(Error::invalid_argument(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that \
                 are modified inplace must all be outputs of the Function.",
            ));
        }
        let is_recorded = self.edges.is_some();
        let kinds: Vec<Kind> = results
            .iter()
            .map(|result| Kind {
                is_input: self.inputs.iter().any(|input| input.is_same(result)),
                is_dirty: has(&marks.dirty, result),
                is_differentiable: is_recorded
                    && (result.dtype().is_floating_point() || result.dtype().is_complex())
                    && !has(&marks.non_differentiable, result),
            })
            .collect();
        check_changed_views(&results, &kinds)?;
        let Marks { saved, dirty, non_differentiable, materializes } = marks;
        drop((dirty, non_differentiable));
        let node = match self.edges.take() {
            None => None,
            Some(mut edges) => {
                let saved = save(saved, &results, &kinds)?;
                let first = self.first_edge(&results, &kinds);
                if first != 0 {
                    edges.swap(0, first);
                }
                let inputs = results.iter().map(InputMeta::of).collect();
                let body = FunctionBody::new((self.name)(), step, saved, materializes, first);
                Some(NewNode { sequence: self.sequence, edges, inputs, body }.make())
            }
        };
        let made = own(results, &kinds, node.as_ref());
        crate::saved_hooks::check_stop()?;
        made
    }

    /// Which input's edge comes first: see [`FunctionBody`].
    fn first_edge(&self, results: &[Tensor], kinds: &[Kind]) -> usize {
        let changed =
            results.iter().zip(kinds).find(|(result, kind)| kind.is_dirty && result.view_base().is_some());
        changed
            .and_then(|(changed, _)| self.inputs.iter().position(|input| input.is_same(changed)))
            .unwrap_or(0)
    }
}

fn check_changed_views(results: &[Tensor], kinds: &[Kind]) -> Result<()> {
    let changes_view = |(result, kind): (&Tensor, &Kind)| {
        kind.is_dirty && kind.is_differentiable && result.view_base().is_some()
    };
    if results.len() > 1 && results.iter().zip(kinds).any(changes_view) {
        return Err(Error::invalid_argument(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return \
             more than one Tensor. This is not supported by the current autograd engine. You should either make sure \
             the input is not a view (using .clone() for example) or make your Function only return one Tensor \
             (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a \
             second one that does the other operations).",
        ));
    }
    Ok(())
}

/// Saves what was asked for: results of the node without history, all else as it is.
fn save(list: SaveList, results: &[Tensor], kinds: &[Kind]) -> Result<SavedList> {
    let is_made = |at: &usize| kinds[*at].is_differentiable && (kinds[*at].is_dirty || !kinds[*at].is_input);
    let save = |tensor: Option<Tensor>| -> Result<Saved> {
        let Some(tensor) = tensor else { return Ok(Saved::None) };
        let which = (0..results.len()).rev().find(|at| results[*at].is_same(&tensor)).filter(is_made);
        let saved = match which {
            Some(which) => SavedTensor::result(&tensor, which)?,
            None => SavedTensor::argument(&tensor)?,
        };
        Ok(Saved::Tensor(saved))
    };
    list.into_iter().map(save).collect()
}

/// Makes each result the node's. One that is returned twice is made once, as the last of its places.
fn own(results: Vec<Tensor>, kinds: &[Kind], node: Option<&Node>) -> Result<Vec<Tensor>> {
    let creation = match kinds.iter().filter(|kind| kind.is_differentiable).count() {
        0 | 1 => Creation::InCustomFunction,
        _ => Creation::MultiOutput,
    };
    // A tensor and its places.
    let mut distinct: Vec<(Tensor, SmallVec<[usize; 1]>)> = Vec::with_capacity(results.len());
    for (at, result) in results.into_iter().enumerate() {
        match distinct.iter_mut().find(|(other, _)| other.is_same(&result)) {
            Some((_, places)) => places.push(at),
            None => distinct.push((result, SmallVec::from_elem(at, 1))),
        }
    }
    let mut made: Vec<Option<Tensor>> = vec![None; kinds.len()];
    for (result, places) in distinct {
        let Some(last) = places.last() else { continue };
        let kind = kinds[*last];
        let edge =
            node.filter(|_| kind.is_differentiable).map(|node| Edge { node: node.clone(), input: *last });
        let result = match edge {
            Some(edge) => differentiable(result, kind, edge, creation)?,
            None => plain(result, kind, creation)?,
        };
        for at in places {
            made[at] = Some(result.clone());
        }
    }
    Ok(made.into_iter().flatten().collect())
}

fn differentiable(result: Tensor, kind: Kind, edge: Edge, creation: Creation) -> Result<Tensor> {
    if kind.is_dirty {
        if result.view_base().is_some() {
            rebase_history(&result, edge.node)?;
        } else {
            set_made_by(&result, edge);
        }
        return Ok(result);
    }
    let is_view = kind.is_input || result.view_base().is_some();
    // See Note [Results that somebody holds].
    let is_free = !is_view && !result.is_followed() && result.use_count() == 1;
    let mut own = match (is_free, is_view) {
        (true, _) => result,
        (false, false) => saved::alias(&result)?,
        (false, true) => view_of(&result, creation)?,
    };
    set_result(&mut own, edge);
    Ok(own)
}

/// A result without gradient.
fn plain(result: Tensor, kind: Kind, creation: Creation) -> Result<Tensor> {
    let is_unchanged_input = kind.is_input && !kind.is_dirty;
    let is_view = !kind.is_input && result.view_base().is_some();
    if requires_grad(&result) && !is_view {
        return saved::alias(&result);
    }
    if is_unchanged_input || is_view { view_of(&result, creation) } else { Ok(result) }
}

/// A view of all of a tensor, or of what that is a view of.
fn view_of(of: &Tensor, creation: Creation) -> Result<Tensor> {
    let mut view = saved::alias(of)?;
    view_track::link(&mut view, of, creation);
    Ok(view)
}
