//! [`Dispatcher`]: all operators by name, and what is registered for each key of each (`c10::Dispatcher`).
//!
//! Who may touch what: the registry, and with it every table, is changed under one lock, by registrations.
//! Operators are looked up by name under a lock that readers share. Calls take no lock: they read tables of
//! atomic pointers to records that are unlinked and never freed, so that what a call has found stays good.
//! The price is the memory of every schema and kernel that was ever registered.
//!
//! Besides the rules of the [registry](super::registry), between registrations:
//! - I6: each slot of a table holds what [`table`] says of the registrations.
//! - I7: the masks of an operator leave out those keys whose slot is fallthrough, and what it has for the usual keys
//!   is what masks and table say.
//! - I8: an operator has the schema that it is defined with, and none if it is not.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use super::fallback::{ambiguous_autograd_other, default_fallback};
use super::kernel::Kernel;
use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::library::Library;
use super::operator::{OperatorEntry, OperatorHandle};
use super::registry::{Definition, Place, Registration, Registrations, Registry};
use super::schema::FunctionSchema;
use super::table::{self, KernelSource};
use crate::error::{Error, Result};

/// All operators by name. The process has one, with the operators of this crate; others are as good, and see
/// only what is registered with them.
#[derive(Default)]
pub struct Dispatcher {
    /// Every operator that was ever spoken of: an operator that is defined anew is the same.
    by_name: RwLock<HashMap<String, OperatorHandle>>,
    registry: Mutex<Registry>,
}

impl Dispatcher {
    /// One with no operators.
    pub fn new() -> Self {
        Self::default()
    }

    /// The process's, with the operators of this crate.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Dispatcher> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let dispatcher = Self::new();
            crate::ops::register_fallback(&dispatcher).expect("the keys have no other fallback yet");
            let mut library =
                Library::define(&dispatcher, "aten").expect("nobody else has this dispatcher yet");
            crate::ops::register(&mut library).expect("the operators of this crate go together");
            library.keep();
            dispatcher
        })
    }

    /// The operator of `namespace::name.overload`, if it is defined (`findSchema`).
    pub fn find(&self, name: &str) -> Option<OperatorHandle> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.get(name).copied().filter(|operator| operator.schema().is_some())
    }

    /// The operator of `namespace::name.overload` (`findSchemaOrThrow`).
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when it is not defined.
    pub fn require(&self, name: &str) -> Result<OperatorHandle> {
        self.find(name).ok_or_else(|| Error::not_implemented(format!("Could not find schema for {name}.")))
    }

    /// All operators that are defined, by name.
    pub fn operators(&self) -> Vec<OperatorHandle> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let mut operators: Vec<_> = by_name.values().copied().filter(|op| op.schema().is_some()).collect();
        operators.sort_unstable_by_key(|operator| operator.name());
        operators
    }

    /// The names of all operators that were ever spoken of.
    pub(super) fn all_names(&self) -> Vec<&'static str> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.values().map(|operator| operator.name()).collect()
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn claim_namespace(&self, namespace: &str, place: Place) -> Result<Registration> {
        self.registry().claim_namespace(namespace, place)
    }

    /// Defines an operator, with its composite kernel if it has one. All or nothing.
    pub(super) fn define(
        &self,
        schema: FunctionSchema,
        is_inferred: bool,
        kernel: Option<Kernel>,
        place: Place,
    ) -> Result<(OperatorHandle, Vec<Registration>)> {
        let name = schema.name().to_string();
        let keys = [DispatchKey::CompositeImplicitAutograd];

        let mut registry = self.registry();
        registry.check_definition(&schema, place)?;
        if let Some(kernel) = &kernel {
            registry.check_kernel(&name, Some((&schema, place)), &keys, kernel, false)?;
        }
        let schema: &'static FunctionSchema = Box::leak(Box::new(schema));
        let operator = self.find_or_make(&name, &registry);
        let mut registrations = vec![registry.define(Definition { schema, place, is_inferred })];
        if let Some(kernel) = kernel {
            registrations.push(registry.implement(&name, &keys, Box::leak(Box::new(kernel)), false));
            refresh(operator, &registry, &keys);
        }
        operator.0.schema.store(Some(schema));
        Ok((operator, registrations))
    }

    /// Registers a kernel for keys of an operator. All or nothing.
    pub(super) fn implement(
        &self,
        name: &str,
        keys: &[DispatchKey],
        kernel: Kernel,
        overrides: bool,
    ) -> Result<Registration> {
        let mut registry = self.registry();
        registry.check_kernel(name, None, keys, &kernel, overrides)?;
        let registration = registry.implement(name, keys, Box::leak(Box::new(kernel)), overrides);
        refresh(self.find_or_make(name, &registry), &registry, keys);
        Ok(registration)
    }

    /// Makes a kernel that of keys of all operators. All or nothing.
    pub(super) fn set_fallback(&self, keys: &[DispatchKey], kernel: Kernel) -> Result<Registration> {
        let mut registry = self.registry();
        registry.check_fallback(keys, &kernel)?;
        let registration = registry.set_fallback(keys, Box::leak(Box::new(kernel)));
        self.refresh_all(&registry, keys);
        Ok(registration)
    }

    /// Takes registrations back, the last first.
    pub(super) fn deregister(&self, registrations: Vec<Registration>) {
        let mut registry = self.registry();
        for registration in registrations.iter().rev() {
            registry.remove(registration);
            match registration {
                Registration::Namespace(_) => {}
                Registration::Definition(name) => self.find_or_make(name, &registry).0.schema.store(None),
                Registration::Kernels { operator, keys, .. } => {
                    refresh(self.find_or_make(operator, &registry), &registry, keys);
                }
                Registration::Fallbacks(keys) => self.refresh_all(&registry, keys),
            }
        }
    }

    /// The operator of a name; a new one's table has the fallbacks.
    pub(super) fn find_or_make(&self, name: &str, registry: &Registry) -> OperatorHandle {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(operator) = by_name.get(name) {
            return *operator;
        }
        let operator = OperatorHandle(Box::leak(Box::new(OperatorEntry::new(name.to_owned()))));
        refresh_slots(operator, None, registry, 0..NUM_RUNTIME_ENTRIES);
        by_name.insert(name.to_owned(), operator);
        operator
    }

    fn refresh_all(&self, registry: &Registry, keys: &[DispatchKey]) {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        for operator in by_name.values() {
            refresh(*operator, registry, keys);
        }
    }
}

/// Fills the slots of an operator's table that depend on the registrations for `keys`.
fn refresh(operator: OperatorHandle, registry: &Registry, keys: &[DispatchKey]) {
    let registrations = registry.of(operator.name());
    if keys.iter().any(|key| table::affects_all(*key)) {
        return refresh_slots(operator, registrations, registry, 0..NUM_RUNTIME_ENTRIES);
    }
    refresh_slots(operator, registrations, registry, keys.iter().flat_map(|key| table::affected(*key)));
}

fn refresh_slots(
    operator: OperatorHandle,
    registrations: Option<&Registrations>,
    registry: &Registry,
    slots: impl Iterator<Item = usize>,
) {
    let mut masks_change = false;
    let present = registrations.map(Registrations::present);
    for slot in slots {
        let key = DispatchKey::from_table_index(slot);
        let (kernel, source) = computed(key, registrations.zip(present.as_ref()), registry);
        masks_change |= operator.0.fill(slot, kernel, source);
    }
    if masks_change {
        operator.0.refresh_masks();
    }
    operator.0.refresh_usual();
}

/// What the slot of a runtime key should hold: of the operator's registrations, if it has any, and for which keys
/// they are.
pub(super) fn computed(
    key: DispatchKey,
    registrations: Option<(&Registrations, &[bool; DispatchKey::COUNT])>,
    registry: &Registry,
) -> (Option<&'static Kernel>, KernelSource) {
    let fallback = || match registry.fallback(key).or_else(|| default_fallback(key)) {
        Some(kernel) => (Some(kernel), KernelSource::BackendFallback),
        None => (None, KernelSource::Missing),
    };
    let Some((registrations, present)) = registrations else { return fallback() };
    match table::choose(key, &|key| present[usize::from(key.number())]) {
        (KernelSource::AmbiguousAutogradOther, _) => {
            (Some(ambiguous_autograd_other()), KernelSource::AmbiguousAutogradOther)
        }
        (source, Some(under)) => (registrations.newest(under), source),
        (_, None) => fallback(),
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operators = self.by_name.read().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Dispatcher").field("operators", &operators).finish_non_exhaustive()
    }
}
