//! [`Op`]: a typed handle on an operator of the process's dispatcher.

use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::dispatcher::Dispatcher;
use super::inferred::InferredSchema;
use super::operator::OperatorHandle;
use super::signature::Signature;
use crate::error::{Error, Result};

/// A typed handle on an operator of the process's [`Dispatcher`] (`c10::TypedOperatorHandle`), looked up when
/// it is first called. `S` is the [`Signature`](super::Signature), as
/// `fn(&'static Tensor, &'static Tensor) -> Tensor`.
pub struct Op<S> {
    name: &'static str,
    overload: &'static str,
    operator: OnceLock<OperatorHandle>,
    signature: PhantomData<S>,
}

impl<S: Signature> Op<S> {
    /// A handle on `namespace::name` and an overload, which is empty for the default one.
    pub const fn new(name: &'static str, overload: &'static str) -> Self {
        Self { name, overload, operator: OnceLock::new(), signature: PhantomData }
    }

    /// The operator.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when nobody has defined it,
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when its schema is none for `S`.
    #[inline]
    pub fn operator(&self) -> Result<OperatorHandle> {
        match self.operator.get() {
            Some(operator) => Ok(*operator),
            None => self.find(),
        }
    }

    #[cold]
    fn find(&self) -> Result<OperatorHandle> {
        let dot = if self.overload.is_empty() { "" } else { "." };
        let name = format!("{}{dot}{}", self.name, self.overload);
        let operator = Dispatcher::global().require(&name)?;
        let schema = operator.schema();
        let inferred = InferredSchema::of::<S>();
        if let Some((schema, reason)) = schema.and_then(|schema| Some((schema, inferred.mismatch(schema)?))) {
            return Err(Error::invalid_argument(format!(
                "Tried to access or call an operator with a wrong signature.\n  operator: {schema}\n  accessed/called \
                 as: {inferred}\n  reason: {reason}"
            )));
        }
        Ok(*self.operator.get_or_init(|| operator))
    }
}

impl<S> fmt::Debug for Op<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Op({}.{})", self.name, self.overload)
    }
}
