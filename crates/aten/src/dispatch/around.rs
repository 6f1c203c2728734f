//! [`Around`]: a kernel that stands before others, for operators of any type: autograd, a tracer, a profiler.

use super::arg::{Arg, Ret};
use super::key_set::DispatchKeySet;
use super::value::Value;
use crate::error::Result;
use crate::tensor::Tensor;

/// What is done before a call is passed on to the keys below, and after it.
///
/// [`Op::around`](super::Op::around) makes a kernel of it for one operator. The arguments stay unboxed, but for
/// those that it asks for.
pub trait Around: Send + Sync + 'static {
    /// What is kept from before the call until after it. It is filled and emptied where it is.
    type Record: Default;

    /// The keys that the call may be passed on to, of all that it has.
    const BELOW: DispatchKeySet;

    /// Whether a call with this tensor may be of concern: one that is [followed](Tensor::is_followed), unless it is
    /// said. Where no argument is, the call is passed on at once.
    #[inline]
    fn concerns(tensor: &Tensor) -> bool {
        tensor.is_followed()
    }

    /// Only tensors that are [followed](Tensor::is_followed) are of concern: calls without one may be led past the
    /// kernel, with nothing said to it.
    const PASSED_BY: bool = false;

    /// Whether results of calls that were of no concern are [marked](Self::mark).
    const MARKS: bool = false;

    /// After a call that was of no concern, for each tensor of its first argument and each tensor that it made. With
    /// [`PASSED_BY`](Self::PASSED_BY) it says that the one is a view of the other, as [`Tensor::set_view_base`] and
    /// [`set_view_mark`](super::local::set_view_mark) would, and kernels of views may do so in its place.
    fn mark(&self, of: &Tensor, made: &mut Tensor) {
        let _ = (of, made);
    }

    /// Before the call. With `false` it is passed on, and nothing is done after it.
    ///
    /// # Errors
    /// What it returns is returned, and the call is not passed on.
    fn before(&self, record: &mut Self::Record, arguments: Arguments<'_>) -> Result<bool>;

    /// Passes the call on, under what guards it needs.
    fn pass_on<R>(&self, call: impl FnOnce() -> R) -> R {
        call()
    }

    /// After a call that succeeded, with the tensors that it made. Nothing, unless it is said.
    ///
    /// # Errors
    /// What it returns is returned in the place of the results.
    fn after(
        &self,
        record: &mut Self::Record,
        arguments: Arguments<'_>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let _ = (record, arguments, results);
        Ok(())
    }
}

/// One argument of a typed call, whatever its type.
pub(super) trait AnyArgument {
    fn boxed(&self) -> Value;
    fn for_each_tensor(&self, f: &mut dyn FnMut(&Tensor));
    fn tensor(&self) -> Option<&Tensor>;
}

pub(super) struct Lent<'a, P: Arg>(pub(super) P::Item<'a>);

impl<P: Arg> AnyArgument for Lent<'_, P> {
    fn boxed(&self) -> Value {
        P::boxed(self.0)
    }

    fn for_each_tensor(&self, f: &mut dyn FnMut(&Tensor)) {
        P::for_each_tensor(self.0, f);
    }

    fn tensor(&self) -> Option<&Tensor> {
        P::tensor(self.0)
    }
}

/// The arguments of a call that an [`Around`] sees, by their place in the schema.
#[derive(Clone, Copy)]
pub struct Arguments<'a>(pub(super) &'a [&'a dyn AnyArgument]);

impl<'a> Arguments<'a> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A boxed copy of one; nothing where there is none.
    #[inline]
    pub fn boxed(&self, at: usize) -> Value {
        self.0.get(at).map_or(Value::None, |argument| argument.boxed())
    }

    /// The tensor that one argument is; `None` of one that is absent or a list.
    #[inline]
    pub fn tensor(&self, at: usize) -> Option<&'a Tensor> {
        self.0.get(at)?.tensor()
    }

    /// Calls `f` with each tensor of one argument, which may be a list or absent.
    #[inline]
    pub fn tensors_of(&self, at: usize, f: &mut dyn FnMut(&Tensor)) {
        if let Some(argument) = self.0.get(at) {
            argument.for_each_tensor(f);
        }
    }

    /// Calls `f` with each tensor of all arguments.
    pub fn for_each_tensor(&self, f: &mut dyn FnMut(&Tensor)) {
        self.0.iter().for_each(|argument| argument.for_each_tensor(f));
    }
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|argument| argument.boxed())).finish()
    }
}

/// The tensors that a call made, in the order of its results: those in lists one by one, and `None` for results
/// that are undefined or are no tensors.
#[derive(Debug)]
pub struct Results<'a>(pub(super) smallvec::SmallVec<[Option<&'a mut Tensor>; 4]>);

impl<'a> Results<'a> {
    pub(super) fn of<R: Ret>(result: &'a mut R) -> Self {
        let mut tensors = smallvec::SmallVec::new();
        result.tensors(&mut |tensor| tensors.push(tensor));
        Self(tensors)
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them.
    #[inline]
    pub fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.0.get(at)?.as_deref()
    }

    /// One of them, to be marked or replaced.
    #[inline]
    pub fn tensor_mut(&mut self, at: usize) -> Option<&mut Tensor> {
        self.0.get_mut(at)?.as_deref_mut()
    }
}
