//! [`Registry`]: what is registered with a dispatcher, by whom, and the rules of what goes together.
//!
//! # Rules
//! - I1: a namespace is defined by one library; an operator has one definition.
//! - I2: for one key of one operator there is one kernel that overrides nothing, and any number that say they
//!   override. Of these the newest counts, and when it goes, the one before.
//! - I3: a kernel's type is that of its operator's schema, whichever came first.
//! - I4: a key has one fallback.
//! - I5: a registration that is refused leaves nothing behind.
//!
//! So whatever does not override commutes: in any order the same registrations are accepted, and the same
//! kernels count.
//!
//! Differs from PyTorch: a second kernel for a key that does not say it overrides is refused, and not warned
//! of: which of the two counts would depend on the order.

use std::collections::BTreeMap;
use std::panic::Location;

use super::inferred::InferredSchema;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::schema::FunctionSchema;
use crate::error::{Error, ErrorKind, Result};

/// Where something was registered.
pub(super) type Place = &'static Location<'static>;

/// All registrations of a dispatcher.
#[derive(Default)]
pub(super) struct Registry {
    next_id: u64,
    namespaces: BTreeMap<String, Place>,
    operators: BTreeMap<String, Registrations>,
    fallbacks: BTreeMap<DispatchKey, &'static Kernel>,
}

/// What is registered for one operator.
#[derive(Default)]
pub(super) struct Registrations {
    pub(super) definition: Option<Definition>,
    /// For each key the kernels, of which the first counts.
    pub(super) kernels: BTreeMap<DispatchKey, Vec<Entry>>,
}

/// The definition of an operator.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    pub(super) schema: &'static FunctionSchema,
    pub(super) place: Place,
    /// The schema is that of a kernel, which says nothing of memory.
    pub(super) is_inferred: bool,
}

/// A kernel registered for one key.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    id: u64,
    pub(super) kernel: &'static Kernel,
    pub(super) overrides: bool,
}

/// Something registered, to be taken back.
#[derive(Debug)]
pub(super) enum Registration {
    Namespace(String),
    Definition(String),
    Kernels { operator: String, keys: Vec<DispatchKey>, id: u64 },
    Fallbacks(Vec<DispatchKey>),
}

impl Registrations {
    /// The kernel of a key that counts.
    pub(super) fn newest(&self, key: DispatchKey) -> Option<&'static Kernel> {
        self.kernels.get(&key).and_then(|entries| entries.first()).map(|entry| entry.kernel)
    }

    /// For each key, by its number, whether there is a kernel.
    pub(super) fn present(&self) -> [bool; DispatchKey::COUNT] {
        let mut present = [false; DispatchKey::COUNT];
        self.kernels.keys().for_each(|key| present[usize::from(key.number())] = true);
        present
    }

    fn is_empty(&self) -> bool {
        self.definition.is_none() && self.kernels.is_empty()
    }
}

impl Registry {
    /// Marks a namespace as defined by a library.
    pub(super) fn claim_namespace(&mut self, namespace: &str, place: Place) -> Result<Registration> {
        if let Some(first) = self.namespaces.get(namespace) {
            return Err(refused(format!(
                "Only a single library can define the namespace {namespace}; put all its definitions there. To add \
                 kernels use Library::implementing, which can be had many times; to define operators of one namespace \
                 in several places use Library::fragment. Previous registration of the library was registered at \
                 {first}; latest registration was registered at {place}"
            )));
        }
        self.namespaces.insert(namespace.to_owned(), place);
        Ok(Registration::Namespace(namespace.to_owned()))
    }

    /// Whether an operator could be defined so.
    pub(super) fn check_definition(&self, schema: &FunctionSchema, place: Place) -> Result<()> {
        let Some(registrations) = self.operators.get(&schema.name().to_string()) else { return Ok(()) };
        if let Some(first) = &registrations.definition {
            return Err(refused(format!(
                "Tried to register an operator ({schema}) with the same name and overload name multiple times. Each \
                 overload's schema should only be registered with a single call to def(). Duplicate registration: \
                 registered at {place}. Original registration: registered at {}",
                first.place
            )));
        }
        let entries = registrations.kernels.values().flatten();
        entries.into_iter().try_for_each(|entry| check_type(schema, place, entry.kernel))
    }

    /// Whether a kernel could be registered for these keys of an operator that is, or is about to be, `defined`.
    pub(super) fn check_kernel(
        &self,
        operator: &str,
        defined: Option<(&FunctionSchema, Place)>,
        keys: &[DispatchKey],
        kernel: &Kernel,
        overrides: bool,
    ) -> Result<()> {
        let registrations = self.operators.get(operator);
        for (at, key) in keys.iter().enumerate() {
            check_key(*key)?;
            if keys[..at].contains(key) {
                return Err(refused(format!("{operator}: the key {key} is named twice for one kernel")));
            }
            let first = registrations
                .and_then(|registrations| registrations.kernels.get(key))
                .and_then(|entries| entries.iter().find(|entry| !entry.overrides));
            if let (Some(first), false) = (first, overrides) {
                return Err(refused(format!(
                    "Tried to register a kernel for the operator {operator} and the dispatch key {key}, which has one \
                     already. To override it say so (Library::override_for). Previous kernel: registered at {}; new \
                     kernel: registered at {}",
                    first.kernel.registered_at(),
                    kernel.registered_at()
                )));
            }
        }
        let registered = || registrations?.definition.map(|definition| (definition.schema, definition.place));
        match defined.or_else(registered) {
            Some((schema, place)) => check_type(schema, place, kernel),
            None => Ok(()),
        }
    }

    /// Defines an operator, after [`check_definition`](Self::check_definition).
    pub(super) fn define(&mut self, definition: Definition) -> Registration {
        let name = definition.schema.name().to_string();
        self.operators.entry(name.clone()).or_default().definition = Some(definition);
        Registration::Definition(name)
    }

    /// Registers a kernel, after [`check_kernel`](Self::check_kernel).
    pub(super) fn implement(
        &mut self,
        operator: &str,
        keys: &[DispatchKey],
        kernel: &'static Kernel,
        overrides: bool,
    ) -> Registration {
        let id = self.next_id;
        self.next_id += 1;
        let registrations = self.operators.entry(operator.to_owned()).or_default();
        for key in keys {
            let entries = registrations.kernels.entry(*key).or_default();
            let at = if overrides { 0 } else { entries.len() };
            entries.insert(at, Entry { id, kernel, overrides });
        }
        Registration::Kernels { operator: operator.to_owned(), keys: keys.to_vec(), id }
    }

    /// Whether a kernel could be that of these keys of all operators.
    pub(super) fn check_fallback(&self, keys: &[DispatchKey], kernel: &Kernel) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            check_key(*key)?;
            if key.is_alias() {
                return Err(refused(format!("a fallback is for a runtime key, and {key} stands for many")));
            }
            if keys[..at].contains(key) {
                return Err(refused(format!("the key {key} is named twice for one fallback")));
            }
            if let Some(first) = self.fallbacks.get(key) {
                return Err(refused(format!(
                    "Tried to register multiple backend fallbacks for the same dispatch key {key}; previous \
                     registration registered at {}, new registration registered at {}",
                    first.registered_at(),
                    kernel.registered_at()
                )));
            }
        }
        Ok(())
    }

    /// Makes a kernel that of keys of all operators, after [`check_fallback`](Self::check_fallback).
    pub(super) fn set_fallback(&mut self, keys: &[DispatchKey], kernel: &'static Kernel) -> Registration {
        self.fallbacks.extend(keys.iter().map(|key| (*key, kernel)));
        Registration::Fallbacks(keys.to_vec())
    }

    /// Takes a registration back.
    pub(super) fn remove(&mut self, registration: &Registration) {
        match registration {
            Registration::Namespace(namespace) => {
                self.namespaces.remove(namespace);
            }
            Registration::Definition(operator) => {
                self.change(operator, |registrations| registrations.definition = None);
            }
            Registration::Kernels { operator, keys, id } => self.change(operator, |registrations| {
                for key in keys {
                    if let Some(entries) = registrations.kernels.get_mut(key) {
                        entries.retain(|entry| entry.id != *id);
                    }
                }
                registrations.kernels.retain(|_, entries| !entries.is_empty());
            }),
            Registration::Fallbacks(keys) => self.fallbacks.retain(|key, _| !keys.contains(key)),
        }
    }

    fn change(&mut self, operator: &str, change: impl FnOnce(&mut Registrations)) {
        if let Some(registrations) = self.operators.get_mut(operator) {
            change(registrations);
            if registrations.is_empty() {
                self.operators.remove(operator);
            }
        }
    }

    /// What is registered for an operator.
    pub(super) fn of(&self, operator: &str) -> Option<&Registrations> {
        self.operators.get(operator)
    }

    /// The operators for which anything is registered.
    pub(super) fn operators(&self) -> impl Iterator<Item = (&str, &Registrations)> {
        self.operators.iter().map(|(name, registrations)| (name.as_str(), registrations))
    }

    pub(super) fn fallback(&self, key: DispatchKey) -> Option<&'static Kernel> {
        self.fallbacks.get(&key).copied()
    }
}

pub(super) fn refused(message: String) -> Error {
    Error::new(ErrorKind::Registration, message)
}

fn check_key(key: DispatchKey) -> Result<()> {
    if key.is_alias() || key.is_runtime() {
        return Ok(());
    }
    Err(refused(format!("{key} is no key for a kernel: it wants a backend")))
}

/// Whether the kernel's type is the schema's.
fn check_type(schema: &FunctionSchema, place: Place, kernel: &Kernel) -> Result<()> {
    let Some(inferred) = kernel.inferred() else { return Ok(()) };
    let Some(reason) = inferred.mismatch(schema) else { return Ok(()) };
    Err(mismatch(schema, place, inferred, kernel, &reason))
}

#[cold]
fn mismatch(
    schema: &FunctionSchema,
    place: Place,
    inferred: &InferredSchema,
    kernel: &Kernel,
    reason: &str,
) -> Error {
    refused(format!(
        "Inferred operator schema for a kernel function doesn't match the expected function schema.\n  operator: \
         {}\n  expected schema: {schema}\n    registered at {place}\n  inferred schema: {inferred}\n    {kernel}\n  \
         reason: {reason}",
        schema.name()
    ))
}
