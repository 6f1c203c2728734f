//! [`Kernel`]: a function that an operator may lead to (`c10::KernelFunction`).

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::key_set::DispatchKeySet;
use super::operator::OperatorHandle;
use super::signature::Signature;
use super::value::Stack;
use crate::error::Result;

/// A boxed kernel: of the operator it was called as, the keys, and the stack whose arguments it replaces by
/// its results.
pub type BoxedFunction = dyn Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync;

/// A kernel of one key of an operator, or of one key of all: typed or boxed, each callable as the other.
pub struct Kernel {
    /// An `Arc<S::Function>`, where it is typed.
    typed: Option<Box<dyn Any + Send + Sync>>,
    signature: Option<TypeId>,
    boxed: Option<Arc<BoxedFunction>>,
    registered_at: &'static Location<'static>,
}

impl Kernel {
    /// A typed kernel, which is also boxed.
    #[track_caller]
    pub(crate) fn typed<S: Signature>(function: Arc<S::Function>) -> Self {
        let shared = Arc::clone(&function);
        let boxed: Arc<BoxedFunction> = Arc::new(move |operator, keys, stack| {
            // Results that are written arguments are those, whatever the kernel returns.
            let written = operator.written_results(stack);
            S::call_boxed(&shared, keys, stack)?;
            stack.extend(written);
            Ok(())
        });
        Self {
            typed: Some(Box::new(function)),
            signature: Some(TypeId::of::<S>()),
            boxed: Some(boxed),
            registered_at: Location::caller(),
        }
    }

    /// A boxed kernel; typed calls box their arguments for it.
    #[track_caller]
    pub fn boxed(
        function: impl Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            typed: None,
            signature: None,
            boxed: Some(Arc::new(function)),
            registered_at: Location::caller(),
        }
    }

    /// The marker that a key has nothing to do here: it is left out of the calls' keys.
    #[track_caller]
    pub fn fallthrough() -> Self {
        Self { typed: None, signature: None, boxed: None, registered_at: Location::caller() }
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
        self.typed.as_ref()?.downcast_ref::<Arc<S::Function>>().map(|function| &**function)
    }

    pub(super) fn signature(&self) -> Option<TypeId> {
        self.signature
    }

    pub(super) fn call_boxed(
        &self,
        operator: OperatorHandle,
        keys: DispatchKeySet,
        stack: &mut Stack,
    ) -> Result<()> {
        match &self.boxed {
            Some(function) => function(operator, keys, stack),
            None => Err(operator.fell_through(keys)),
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (&self.typed, &self.boxed) {
            (Some(_), _) => "boxed unboxed",
            (None, Some(_)) => "boxed",
            (None, None) => "fallthrough",
        };
        write!(f, "Kernel({kind}, registered at {})", self.registered_at)
    }
}
