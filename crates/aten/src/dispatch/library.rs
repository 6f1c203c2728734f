//! [`Library`]: definitions and kernels of one namespace (`torch::Library`).

use super::dispatcher::Dispatcher;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::operator::OperatorHandle;
use super::schema_parse::parse_schema;
use super::signature::IntoKernel;
use crate::error::Result;

/// Definitions and kernels of one namespace, for one dispatcher.
#[derive(Debug)]
pub struct Library<'d> {
    dispatcher: &'d Dispatcher,
    namespace: String,
}

impl<'d> Library<'d> {
    /// A library of `namespace`.
    pub fn new(dispatcher: &'d Dispatcher, namespace: &str) -> Self {
        Self { dispatcher, namespace: namespace.to_owned() }
    }

    /// Defines an operator by its schema, without namespace.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) for a text that is no schema,
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when the operator is defined already.
    pub fn def(&mut self, schema: &str) -> Result<OperatorHandle> {
        self.dispatcher.define(parse_schema(&format!("{}::{schema}", self.namespace))?)
    }

    /// Registers a kernel for `keys` of the operator `name.overload`.
    ///
    /// # Errors
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when the kernel's type is not the schema's.
    #[track_caller]
    pub fn impl_for<M>(
        &mut self,
        name: &str,
        keys: &[DispatchKey],
        kernel: impl IntoKernel<M>,
    ) -> Result<()> {
        self.impl_kernel(name, keys, kernel.into_kernel())
    }

    /// As [`impl_for`](Self::impl_for), for a kernel that is made already.
    ///
    /// # Errors
    /// As there.
    pub fn impl_kernel(&mut self, name: &str, keys: &[DispatchKey], kernel: Kernel) -> Result<()> {
        self.dispatcher.implement(&format!("{}::{name}", self.namespace), keys, kernel)
    }

    /// A kernel for CPU and Meta: one that makes its outputs and has no loop to run on the latter.
    #[track_caller]
    pub(crate) fn cpu_meta<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<()> {
        self.impl_for(name, &[DispatchKey::Cpu, DispatchKey::Meta], kernel)
    }

    /// A kernel for all backends (`CompositeExplicitAutograd`): it touches no elements, or by operators that
    /// every backend has.
    #[track_caller]
    pub(crate) fn all_backends<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<()> {
        self.impl_for(name, &[DispatchKey::CompositeExplicitAutograd], kernel)
    }

    /// A kernel made of differentiable operators (`CompositeImplicitAutograd`).
    #[track_caller]
    pub(crate) fn composite<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<()> {
        self.impl_for(name, &[DispatchKey::CompositeImplicitAutograd], kernel)
    }
}
