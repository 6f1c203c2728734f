//! [`Kernel`]: a function that an operator may lead to (`c10::KernelFunction`).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::inferred::InferredSchema;
use super::key_set::DispatchKeySet;
use super::operator::OperatorHandle;
use super::signature::Signature;
use super::slot::Erased;
use super::value::{self, Stack, Value};
use crate::error::Result;
use crate::tensor::Tensor;

/// A boxed kernel: of the operator it was called as, the keys, and the stack whose arguments it replaces by
/// its results.
pub type BoxedFunction = dyn Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync;

/// A kernel of one key of an operator, or of one key of all: typed or boxed, each callable as the other.
pub struct Kernel {
    /// An `Arc<S::Function>`, where it is typed.
    typed: Option<Erased>,
    inferred: Option<InferredSchema>,
    boxed: Option<Arc<BoxedFunction>>,
    name: Option<String>,
    registered_at: &'static Location<'static>,
    passed_by: Option<PassedBy>,
    links_views: bool,
}

/// Of a kernel that calls are led past where none of their tensors is followed: see Note [Calls that nobody follows].
#[derive(Clone, Copy)]
pub(super) struct PassedBy {
    /// The keys that it would pass such a call on to, of all that it has.
    pub(super) below: DispatchKeySet,
    /// It marks the results of such calls.
    pub(super) marks: bool,
}

impl Kernel {
    /// A typed kernel, which is also boxed.
    #[track_caller]
    pub(crate) fn typed<S: Signature>(function: Arc<S::Function>) -> Self {
        let shared = Arc::clone(&function);
        let returns_written_arguments = S::return_names().is_none();
        let boxed: Arc<BoxedFunction> = Arc::new(move |operator, keys, stack| {
            // Results that are written arguments are those: a kernel that returns nothing leaves them to us.
            let written =
                if returns_written_arguments { operator.written_results(stack) } else { Stack::new() };
            S::call_boxed(&shared, keys, stack)?;
            stack.extend(written);
            Ok(())
        });
        Self {
            typed: Some(Erased::new(function)),
            inferred: Some(InferredSchema::of::<S>()),
            boxed: Some(boxed),
            ..Self::fallthrough()
        }
    }

    /// A boxed kernel; typed calls box their arguments for it.
    #[track_caller]
    pub fn boxed(
        function: impl Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { boxed: Some(Arc::new(function)), ..Self::fallthrough() }
    }

    /// The marker that a key has nothing to do here: it is left out of the calls' keys.
    #[track_caller]
    pub fn fallthrough() -> Self {
        Self {
            typed: None,
            inferred: None,
            boxed: None,
            name: None,
            registered_at: Location::caller(),
            passed_by: None,
            links_views: false,
        }
    }

    /// Says that calls of which no tensor is followed may be led past it.
    #[must_use]
    pub(super) fn with_passed_by(self, passed_by: Option<PassedBy>) -> Self {
        Self { passed_by, ..self }
    }

    #[inline]
    pub(super) fn passed_by(&self) -> Option<PassedBy> {
        self.passed_by
    }

    /// Says that it [links](Tensor::linked_to) the views that it makes, where it is called with keys of autograd.
    #[must_use]
    pub(crate) fn linking_views(self) -> Self {
        Self { links_views: true, ..self }
    }

    #[inline]
    pub(super) fn links_views(&self) -> bool {
        self.links_views
    }

    /// A name for dumps, in the place of where it was made (`debug`).
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The kernel with a check of its results. It is boxed then, and keeps its type for comparison with a schema.
    #[must_use]
    pub(super) fn checked(
        self,
        check: fn(OperatorHandle, arguments: &[Tensor], results: &[Value]) -> Result<()>,
    ) -> Self {
        let Some(function) = self.boxed else { return self };
        let boxed: Arc<BoxedFunction> = Arc::new(move |operator, keys, stack| {
            let arguments = value::tensors(stack);
            function(operator, keys, stack)?;
            check(operator, &arguments, stack)
        });
        Self { typed: None, boxed: Some(boxed), passed_by: None, links_views: false, ..self }
    }

    /// Whether it is the [`fallthrough`](Self::fallthrough) marker.
    pub fn is_fallthrough(&self) -> bool {
        self.boxed.is_none()
    }

    /// Where it was made.
    pub fn registered_at(&self) -> &'static Location<'static> {
        self.registered_at
    }

    #[inline]
    pub(super) fn as_typed<S: Signature>(&self) -> Option<&S::Function> {
        self.typed.as_ref()?.get::<Arc<S::Function>>().map(|function| &**function)
    }

    /// What its type says of the schema; nothing for boxed kernels.
    pub(super) fn inferred(&self) -> Option<&InferredSchema> {
        self.inferred.as_ref()
    }

    /// In which ways it can be called, for dumps.
    pub(super) fn forms(&self) -> &'static str {
        match (&self.typed, &self.boxed) {
            (Some(_), _) => "[ boxed unboxed ]",
            (None, Some(_)) => "[ boxed ]",
            (None, None) => "[ fallthrough ]",
        }
    }

    pub(super) fn call_boxed(
        &self,
        operator: OperatorHandle,
        keys: DispatchKeySet,
        stack: &mut Stack,
    ) -> Result<()> {
        match &self.boxed {
            Some(function) => function(operator, keys, stack),
            // The table changes slot by slot while calls go on: a key may be among a call's keys that has just
            // become one with nothing to do.
            None => operator.call_below(keys, stack),
        }
    }
}

impl fmt::Display for Kernel {
    /// Its name or where it was made, as in dumps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_fallthrough() {
            f.write_str("fallthrough ")?;
        }
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "registered at {}", self.registered_at),
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({self} {})", self.forms())
    }
}
