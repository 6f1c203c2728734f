//! [`Formula`]: how one operator is differentiated, as the build script makes it from a table of derivatives, and
//! [`Backward`], what its code runs in.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use aten::dispatch::{Arg, Value};
use aten::{Error, Result, Tensor};
use c10_core::Scalar;

use crate::gradients::{Gradients, undefine};
use crate::node::{InputMeta, Node};
use crate::saved::{Saved, SavedList, SavedTensor, TensorMeta, already_freed};
use crate::unpacked::Unpacked;

/// How one operator is differentiated.
#[derive(Debug)]
pub(crate) struct Formula {
    /// The node's name.
    pub(crate) name: &'static str,
    /// The arguments that have a gradient, in the order of the schema.
    pub(crate) targets: &'static [Target],
    /// What is kept for them.
    pub(crate) saves: &'static [Save],
    /// Bit `i` says that result `i` has no gradient though its dtype could have one.
    pub(crate) non_differentiable: u32,
    /// The operator writes arguments besides the one that it is called on.
    pub(crate) fills_arguments: bool,
    /// A target is a list of tensors.
    pub(crate) has_list: bool,
    /// Tensors are among what is kept.
    pub(crate) saves_tensors: bool,
    /// Results are, or what they look like.
    pub(crate) saves_results: bool,
    pub(crate) backward: fn(&mut Backward<'_>) -> Result<()>,
}

/// An argument with a gradient.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) argument: usize,
    pub(crate) is_list: bool,
}

/// Something that is kept.
#[derive(Debug)]
pub(crate) struct Save {
    pub(crate) of: Of,
    pub(crate) keep: Keep,
    /// Bit `i` says that target `i` needs it.
    pub(crate) users: u32,
}

/// Of what it is.
#[derive(Debug)]
pub(crate) enum Of {
    Argument(usize),
    Result(usize),
}

/// In which way it is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    Tensor,
    Optional,
    Tensors,
    /// Sizes, strides, dtype and device alone.
    Meta,
    Metas,
    /// A number, a list of numbers or another plain value.
    Value,
}

impl Formula {
    /// Whether result `at` has a gradient.
    pub(crate) fn is_differentiable(&self, at: usize, tensor: &Tensor) -> bool {
        let dtype = tensor.dtype();
        let is_excluded = at < 32 && self.non_differentiable >> at & 1 == 1;
        (dtype.is_floating_point() || dtype.is_complex()) && !is_excluded
    }
}

/// A node that runs a formula.
pub(crate) struct FormulaBody {
    formula: &'static Formula,
    saved: Kept,
    /// How many edges each target has, where one of them is a list.
    lengths: Option<Box<[usize]>>,
}

/// What a node keeps.
enum Kept {
    /// Nothing of tensors.
    Plain(SavedList),
    /// Tensors are given up when it has run.
    Tensors(Mutex<SavedList>),
}

impl FormulaBody {
    /// With nothing kept yet.
    #[inline(always)]
    pub(crate) fn new(formula: &'static Formula) -> Self {
        // Of one form whatever the formula, so that it is made in its place.
        Self { formula, saved: Kept::Plain(SavedList::None), lengths: None }
    }

    #[inline]
    pub(crate) fn name(&self) -> &'static str {
        self.formula.name
    }

    /// Says that tensors will be among what is kept.
    #[inline]
    pub(crate) fn will_keep_tensors(&mut self) {
        self.saved = Kept::Tensors(Mutex::default());
    }

    /// What is kept, while the node is made.
    #[inline]
    pub(crate) fn saved(&mut self) -> &mut SavedList {
        match &mut self.saved {
            Kept::Plain(saved) => saved,
            Kept::Tensors(saved) => saved.get_mut().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(crate) fn set_lengths(&mut self, lengths: Box<[usize]>) {
        self.lengths = Some(lengths);
    }

    /// As [`Node::apply`].
    #[inline]
    pub(crate) fn apply(
        &self,
        node: &Node,
        gradients: &mut [Option<Tensor>],
        keep: bool,
        given: &mut Gradients,
    ) -> Result<()> {
        let taken;
        let saved = match &self.saved {
            Kept::Plain(saved) => saved,
            Kept::Tensors(saved) => {
                taken = take(saved, keep);
                &taken
            }
        };
        undefine(given, node.next_functions().len());
        (self.formula.backward)(&mut Backward {
            node,
            gradients,
            saved,
            lengths: self.lengths.as_deref(),
            given,
            unwanted: crate::engine::unwanted(node),
            zeros: RefCell::default(),
            unpacked: Unpacked::default(),
        })
    }

    /// Whether what is kept may hold the last handle on a node.
    #[inline]
    pub(crate) fn may_hold_nodes(&mut self) -> bool {
        match &mut self.saved {
            Kept::Plain(_) => false,
            Kept::Tensors(saved) => {
                let saved = saved.get_mut().unwrap_or_else(PoisonError::into_inner);
                saved.iter().any(Saved::may_hold_nodes)
            }
        }
    }

    /// Takes out what is kept.
    pub(crate) fn take_saved(&mut self) -> SavedList {
        std::mem::take(self.saved())
    }
}

/// What tensors are kept, for a run: formulas call operators and hooks, and those not under the lock. Handles are cheap.
fn take(saved: &Mutex<SavedList>, keep: bool) -> SavedList {
    let mut saved = saved.lock().unwrap_or_else(PoisonError::into_inner);
    match keep {
        true => saved.iter().map(Saved::share).collect(),
        false => saved.iter_mut().map(Saved::give_up).collect(),
    }
}

// Note [Gradients given away]
// What a node took nobody asks for once its formula has it: not the engine, and whoever else wants it (a hook, a
// retained gradient, a result of the call, the caller whose gradient it is) has a handle. So a formula may give its
// gradient to an operator that takes tensors by value, and where there is no other handle that changes it in its place:
// see aten's Note [Tensors given away]. That asks for handles of all kinds, so that nothing has to be known here of who
// may have one. Elements, dtype, layout and version are those of a new tensor.

/// What the code of a formula sees: the gradients of the results, what was kept, and where its own results go.
pub(crate) struct Backward<'a> {
    node: &'a Node,
    gradients: &'a mut [Option<Tensor>],
    saved: &'a [Saved],
    lengths: Option<&'a [usize]>,
    given: &'a mut Gradients,
    /// A bit for each edge that leads to nothing that is wanted.
    unwanted: u64,
    /// Gradients of zeros that were made.
    zeros: RefCell<Vec<(usize, Tensor)>>,
    unpacked: Unpacked,
}

impl<'a> Backward<'a> {
    /// Whether a gradient of one of these results is defined.
    #[inline]
    pub(crate) fn any_defined(&self, results: &[usize]) -> bool {
        results.iter().any(|at| self.gradients.get(*at).is_some_and(Option::is_some))
    }

    /// The gradient of a result; zeros where it is not defined.
    #[inline]
    pub(crate) fn gradient(&self, at: usize) -> Result<Gradient<'_>> {
        match self.gradients.get(at) {
            Some(Some(gradient)) => Ok(Gradient::Given(gradient)),
            _ => self.zeros(at).map(Gradient::Zeros),
        }
    }

    /// The gradient of the first result: see Note [Gradients given away].
    #[inline]
    pub(crate) fn own_gradient(&mut self) -> Result<Tensor> {
        match self.gradients.first_mut().and_then(Option::take) {
            Some(gradient) => Ok(gradient),
            None => self.zeros(0),
        }
    }

    fn zeros(&self, at: usize) -> Result<Tensor> {
        if let Some((_, zeros)) = self.zeros.borrow().iter().find(|(of, _)| *of == at) {
            return Ok(zeros.clone());
        }
        let meta = self.node.inputs().get(at);
        let zeros = meta.ok_or_else(|| Error::invalid_argument("no such result"))?.zeros()?;
        self.zeros.borrow_mut().push((at, zeros.clone()));
        Ok(zeros)
    }

    /// The gradients of all results.
    pub(crate) fn gradients(&self) -> &[Option<Tensor>] {
        self.gradients
    }

    /// What all results look like.
    pub(crate) fn metas_of_results(&self) -> &'a [InputMeta] {
        self.node.inputs()
    }

    #[inline]
    fn span(&self, target: usize) -> std::ops::Range<usize> {
        match self.lengths {
            None => target..target + 1,
            Some(lengths) => {
                let start = lengths[..target].iter().sum();
                start..start + lengths[target]
            }
        }
    }

    /// Whether the gradient of a target is wanted; of a list, of any in it.
    #[inline]
    pub(crate) fn wants(&self, target: usize) -> bool {
        self.span(target).any(|at| self.wants_edge(at))
    }

    /// The same, by its edge: that of a target where no target is a list.
    #[inline]
    pub(crate) fn wants_edge(&self, at: usize) -> bool {
        self.node.next_functions()[at].is_some() && (at >= 64 || self.unwanted >> at & 1 == 0)
    }

    /// For each tensor of a list whether its gradient is wanted.
    pub(crate) fn wants_each(&self, target: usize) -> Vec<bool> {
        self.span(target).map(|at| self.wants_edge(at)).collect()
    }

    /// Gives the gradient of a target, which is wanted.
    #[inline]
    pub(crate) fn give_wanted(&mut self, target: usize, gradient: impl IntoGradient) {
        let at = self.span(target).start;
        self.given[at] = gradient.into_gradient();
    }

    /// Gives the gradient of a target, if it is wanted.
    #[inline]
    pub(crate) fn give(&mut self, target: usize, gradient: impl IntoGradient) {
        let at = self.span(target).start;
        if self.wants_edge(at) {
            self.given[at] = gradient.into_gradient();
        }
    }

    /// Gives the gradients of a target that is a list.
    pub(crate) fn give_list(&mut self, target: usize, gradients: Vec<impl IntoGradient>) {
        for (at, gradient) in self.span(target).zip(gradients) {
            self.given[at] = gradient.into_gradient();
        }
    }

    pub(crate) fn tensor(&self, slot: usize) -> Result<Tensor> {
        match &self.saved[slot] {
            Saved::Tensor(saved) => self.unpacked.unpack(saved, self.node),
            other => Err(missing(other)),
        }
    }

    pub(crate) fn optional(&self, slot: usize) -> Result<Option<Tensor>> {
        match &self.saved[slot] {
            Saved::Tensor(saved) => self.unpacked.unpack(saved, self.node).map(Some),
            Saved::None => Ok(None),
            other => Err(missing(other)),
        }
    }

    pub(crate) fn late(&self, slot: usize) -> Late<'_> {
        Late { backward: self, slot }
    }

    pub(crate) fn optional_tensors(&self, slot: usize) -> Result<Vec<Option<Tensor>>> {
        let Saved::Tensors(list) = &self.saved[slot] else { return Err(missing(&self.saved[slot])) };
        let unpack = |saved: &Option<SavedTensor>| {
            saved.as_ref().map(|saved| self.unpacked.unpack(saved, self.node)).transpose()
        };
        list.iter().map(unpack).collect()
    }

    pub(crate) fn meta(&self, slot: usize) -> Result<&'a TensorMeta> {
        match &self.saved[slot] {
            Saved::Meta(meta) => Ok(meta),
            other => Err(missing(other)),
        }
    }

    pub(crate) fn metas(&self, slot: usize) -> Result<&'a [TensorMeta]> {
        match &self.saved[slot] {
            Saved::Metas(metas) => Ok(metas),
            other => Err(missing(other)),
        }
    }

    /// A plain number.
    #[inline]
    pub(crate) fn number(&self, slot: usize) -> Result<Scalar> {
        match &self.saved[slot] {
            Saved::Number(number) => Ok(*number),
            other => Err(missing(other)),
        }
    }

    /// A plain value, as its own type.
    pub(crate) fn kept<T: Arg>(&self, slot: usize) -> Result<T::Owned> {
        match &self.saved[slot] {
            Saved::Number(number) => T::unbox(Value::Scalar(*number)),
            Saved::Value(value) => T::unbox(value.clone()),
            other => Err(missing(other)),
        }
    }
}

/// The gradient of a result.
pub(crate) enum Gradient<'a> {
    Given(&'a Tensor),
    Zeros(Tensor),
}

impl Deref for Gradient<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            Self::Given(gradient) => gradient,
            Self::Zeros(zeros) => zeros,
        }
    }
}

/// A tensor that is unpacked when it is asked for.
pub(crate) struct Late<'a> {
    backward: &'a Backward<'a>,
    slot: usize,
}

impl Late<'_> {
    pub(crate) fn late(&self) -> Result<Option<Tensor>> {
        self.backward.optional(self.slot)
    }
}

/// Why there is not what a formula asks for.
#[cold]
fn missing(saved: &Saved) -> Error {
    if matches!(saved, Saved::GivenUp) {
        return already_freed();
    }
    Error::invalid_argument(
        "what the formula needs was not kept: this is a fault of the table of derivatives",
    )
}

/// What a formula may give.
pub(crate) trait IntoGradient {
    fn into_gradient(self) -> Option<Tensor>;
}

impl IntoGradient for Tensor {
    #[inline]
    fn into_gradient(self) -> Option<Tensor> {
        Some(self)
    }
}

impl IntoGradient for Option<Tensor> {
    #[inline]
    fn into_gradient(self) -> Option<Tensor> {
        self
    }
}
