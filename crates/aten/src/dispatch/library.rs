//! [`Library`]: definitions and kernels of one namespace (`torch::Library`).

use std::panic::Location;

use super::dispatcher::Dispatcher;
use super::inferred::InferredSchema;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::name::OperatorName;
use super::operator::OperatorHandle;
use super::registry::{Place, Registration, refused};
use super::schema::FunctionSchema;
use super::signature::IntoKernel;
use crate::error::Result;

/// Definitions and kernels of one namespace, for one dispatcher.
///
/// What a library has registered is taken back when it is dropped, so that a registration of many steps which
/// fails at one leaves nothing behind; [`keep`](Self::keep) makes it stay. Registrations commute, except that of
/// several overriding kernels the newest counts.
#[derive(Debug)]
#[must_use = "what it has registered is taken back when it is dropped"]
pub struct Library<'d> {
    dispatcher: &'d Dispatcher,
    kind: Kind,
    /// None for all of them, as fallbacks are.
    namespace: Option<String>,
    /// For kernels that are registered without naming one.
    key: Option<DispatchKey>,
    registrations: Vec<Registration>,
    place: Place,
}

/// What a library may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Define,
    Fragment,
    Implement,
}

impl<'d> Library<'d> {
    /// The library that defines a namespace (`TORCH_LIBRARY`), of which there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when there is another.
    #[track_caller]
    pub fn define(dispatcher: &'d Dispatcher, namespace: &str) -> Result<Self> {
        let mut library = Self::new(dispatcher, Kind::Define, Some(namespace), None);
        library.registrations.push(dispatcher.claim_namespace(namespace, library.place)?);
        Ok(library)
    }

    /// More definitions and kernels of a namespace that another library may define (`TORCH_LIBRARY_FRAGMENT`).
    #[track_caller]
    pub fn fragment(dispatcher: &'d Dispatcher, namespace: &str) -> Self {
        Self::new(dispatcher, Kind::Fragment, Some(namespace), None)
    }

    /// Kernels for one key of operators of a namespace (`TORCH_LIBRARY_IMPL`).
    #[track_caller]
    pub fn implementing(dispatcher: &'d Dispatcher, namespace: &str, key: DispatchKey) -> Self {
        Self::new(dispatcher, Kind::Implement, Some(namespace), Some(key))
    }

    /// Fallbacks, which are for the operators of all namespaces (`TORCH_LIBRARY_IMPL(_, …)`).
    #[track_caller]
    pub fn fallbacks(dispatcher: &'d Dispatcher) -> Self {
        Self::new(dispatcher, Kind::Implement, None, None)
    }

    #[track_caller]
    fn new(
        dispatcher: &'d Dispatcher,
        kind: Kind,
        namespace: Option<&str>,
        key: Option<DispatchKey>,
    ) -> Self {
        Self {
            dispatcher,
            kind,
            namespace: namespace.map(str::to_owned),
            key,
            registrations: Vec::new(),
            place: Location::caller(),
        }
    }

    /// Defines an operator by its schema.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) for a text that is no schema;
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when the operator is defined already, when it
    /// is of another namespace, or when a kernel of it is of another type.
    #[track_caller]
    pub fn def(&mut self, schema: &str) -> Result<OperatorHandle> {
        self.define_schema(schema.parse()?, false, None)
    }

    /// Defines an operator by its schema and its kernel for every key, made of operators that differentiate
    /// themselves (CompositeImplicitAutograd).
    ///
    /// # Errors
    /// As [`def`](Self::def).
    #[track_caller]
    pub fn def_with<M>(&mut self, schema: &str, kernel: impl IntoKernel<M>) -> Result<OperatorHandle> {
        self.define_schema(schema.parse()?, false, Some(kernel.into_kernel()))
    }

    /// As [`def_with`](Self::def_with), with the schema of the kernel's type. It has no argument names or
    /// defaults, and says nothing of memory.
    ///
    /// # Errors
    /// As [`def`](Self::def), and [`ErrorKind::Registration`](crate::ErrorKind::Registration) for a boxed kernel.
    #[track_caller]
    pub fn def_inferred<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<OperatorHandle> {
        let kernel = kernel.into_kernel();
        let name: OperatorName = name.parse()?;
        let Some(inferred) = kernel.inferred().map(InferredSchema::to_string) else {
            return Err(refused(format!("{name}: a boxed kernel has no schema of its own")));
        };
        let schema: FunctionSchema = format!("{name}{inferred}").parse()?;
        self.define_schema(schema, true, Some(kernel))
    }

    #[track_caller]
    fn define_schema(
        &mut self,
        schema: FunctionSchema,
        is_inferred: bool,
        kernel: Option<Kernel>,
    ) -> Result<OperatorHandle> {
        if self.kind == Kind::Implement {
            return Err(refused(format!(
                "{}: a library that implements defines no operators; use Library::define or Library::fragment",
                schema.name()
            )));
        }
        let name = self.qualified(schema.name().clone(), "def")?;
        let place = Location::caller();
        let (operator, registrations) =
            self.dispatcher.define(schema.with_name(name), is_inferred, kernel, place)?;
        self.registrations.extend(registrations);
        Ok(operator)
    }

    /// Registers a kernel of the operator `name.overload` for the library's key; for
    /// CompositeImplicitAutograd, where it has none.
    ///
    /// # Errors
    /// As [`impl_for`](Self::impl_for).
    #[track_caller]
    pub fn implement<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<()> {
        let key = self.key.unwrap_or(DispatchKey::CompositeImplicitAutograd);
        self.impl_kernel(name, &[key], kernel.into_kernel())
    }

    /// Registers a kernel for `keys` of the operator `name.overload`, which need not be defined yet.
    ///
    /// # Errors
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when the kernel's type is not the schema's,
    /// when a key has a kernel already, or when the operator is of another namespace.
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
        self.register(name, keys, kernel, false)
    }

    /// As [`impl_for`](Self::impl_for), in the place of kernels that these keys have or will have. While it is
    /// registered it counts, and the newest of several such.
    ///
    /// # Errors
    /// As there, but for keys that have a kernel.
    #[track_caller]
    pub fn override_for<M>(
        &mut self,
        name: &str,
        keys: &[DispatchKey],
        kernel: impl IntoKernel<M>,
    ) -> Result<()> {
        self.register(name, keys, kernel.into_kernel(), true)
    }

    fn register(&mut self, name: &str, keys: &[DispatchKey], kernel: Kernel, overrides: bool) -> Result<()> {
        let name = self.qualified(name.parse()?, "impl")?.to_string();
        self.registrations.push(self.dispatcher.implement(&name, keys, kernel, overrides)?);
        Ok(())
    }

    /// Makes a kernel that of `keys` of every operator that has no other for them.
    ///
    /// # Errors
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when a key has a fallback already or is an
    /// alias, or when the library is of one namespace.
    pub fn fallback(&mut self, keys: &[DispatchKey], kernel: Kernel) -> Result<()> {
        if let Some(namespace) = &self.namespace {
            return Err(refused(format!(
                "a fallback is for the operators of all namespaces, and this library is of {namespace}: use \
                 Library::fallbacks"
            )));
        }
        self.registrations.push(self.dispatcher.set_fallback(keys, kernel)?);
        Ok(())
    }

    /// Lets what was registered stay for good.
    pub fn keep(mut self) {
        self.registrations.clear();
    }

    /// Takes everything back that was registered; so does dropping.
    pub fn deregister(self) {}

    /// The dispatcher that it registers with.
    pub fn dispatcher(&self) -> &'d Dispatcher {
        self.dispatcher
    }

    /// The name in the library's namespace.
    fn qualified(&self, name: OperatorName, call: &str) -> Result<OperatorName> {
        let Some(namespace) = &self.namespace else {
            return Err(refused(format!(
                "{call}({name}): a library of fallbacks has no namespace, and registers for all operators alone"
            )));
        };
        let name = name.with_namespace_if_unset(namespace);
        if name.namespace() != Some(namespace) {
            return Err(refused(format!(
                "{call}({name}): Explicitly provided namespace ({}) in operator name does not match namespace of \
                 enclosing library ({namespace}). (Library at {})",
                name.namespace().unwrap_or_default(),
                self.place
            )));
        }
        Ok(name)
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

impl Drop for Library<'_> {
    fn drop(&mut self) {
        let registrations = std::mem::take(&mut self.registrations);
        if !registrations.is_empty() {
            self.dispatcher.deregister(registrations);
        }
    }
}
