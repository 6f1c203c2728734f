//! [`Dispatcher`]: all operators by name, and what is registered for each key of each (`c10::Dispatcher`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use super::kernel::Kernel;
use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;
use super::library::Library;
use super::operator::{OperatorEntry, OperatorHandle};
use super::schema::FunctionSchema;
use crate::error::{Error, ErrorKind, Result};

/// All operators by name. The process has one, with the operators of this crate; others are as good, and see
/// only what is registered with them.
#[derive(Default)]
pub struct Dispatcher {
    by_name: RwLock<HashMap<String, OperatorHandle>>,
    registrations: Mutex<Registrations>,
}

#[derive(Default)]
struct Registrations {
    /// For each operator, by name, the kernels of each key, the newest first.
    kernels: BTreeMap<String, BTreeMap<DispatchKey, Vec<&'static Kernel>>>,
    fallbacks: BTreeMap<DispatchKey, &'static Kernel>,
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
            let mut library = Library::new(&dispatcher, "aten");
            crate::ops::register(&mut library).expect("the operators of this crate go together");
            dispatcher
        })
    }

    /// The operator of `namespace::name.overload`.
    pub fn find(&self, name: &str) -> Option<OperatorHandle> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// All operators, by name.
    pub fn operators(&self) -> Vec<OperatorHandle> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let mut operators: Vec<_> = by_name.values().copied().collect();
        operators.sort_by_key(|operator| operator.name());
        operators
    }

    fn registrations(&self) -> MutexGuard<'_, Registrations> {
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_or_make(&self, name: &str) -> OperatorHandle {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        *by_name
            .entry(name.to_owned())
            .or_insert_with(|| OperatorHandle(Box::leak(Box::new(OperatorEntry::new(name.to_owned())))))
    }

    pub(super) fn define(&self, schema: FunctionSchema) -> Result<OperatorHandle> {
        let name = schema.name().to_string();
        let registrations = self.registrations();
        let operator = self.find_or_make(&name);
        if operator.schema().is_some() {
            return Err(Error::new(
                ErrorKind::Registration,
                format!(
                    "Tried to register an operator ({schema}) with the same name and overload name multiple times"
                ),
            ));
        }
        operator.0.schema.store(Some(Box::leak(Box::new(schema))));
        recompute(operator, &registrations);
        Ok(operator)
    }

    pub(super) fn implement(&self, name: &str, keys: &[DispatchKey], kernel: Kernel) -> Result<()> {
        let kernel: &'static Kernel = Box::leak(Box::new(kernel));
        let mut registrations = self.registrations();
        let operator = self.find_or_make(name);
        let kernels = registrations.kernels.entry(name.to_owned()).or_default();
        for key in keys {
            kernels.entry(*key).or_default().insert(0, kernel);
        }
        recompute(operator, &registrations);
        Ok(())
    }
}

/// Fills the table of an operator from what is registered for it.
fn recompute(operator: OperatorHandle, registrations: &Registrations) {
    let none = BTreeMap::new();
    let kernels = registrations.kernels.get(operator.name()).unwrap_or(&none);
    let mut mask = DispatchKeySet::FULL;
    for index in 0..NUM_RUNTIME_ENTRIES {
        let key = DispatchKey::from_table_index(index);
        let kernel = choose(key, kernels, &registrations.fallbacks);
        operator.0.table[index].store(kernel);
        if kernel.is_none_or(Kernel::is_fallthrough) && !DispatchKeySet::is_backend_key(key) {
            mask = mask.remove(key);
        }
    }
    operator.0.mask.store(mask.raw_repr(), Ordering::Relaxed);
}

/// The kernel of a runtime key, by PyTorch's order of precedence.
fn choose(
    key: DispatchKey,
    kernels: &BTreeMap<DispatchKey, Vec<&'static Kernel>>,
    fallbacks: &BTreeMap<DispatchKey, &'static Kernel>,
) -> Option<&'static Kernel> {
    let newest = |key: DispatchKey| kernels.get(&key).and_then(|kernels| kernels.first()).copied();
    let backend = key == DispatchKey::Undefined || DispatchKeySet::is_backend_key(key);
    newest(key)
        .or_else(|| if backend { newest(DispatchKey::CompositeExplicitAutograd) } else { None })
        .or_else(|| if backend { newest(DispatchKey::CompositeImplicitAutograd) } else { None })
        .or_else(|| fallbacks.get(&key).copied())
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operators = self.by_name.read().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Dispatcher").field("operators", &operators).finish_non_exhaustive()
    }
}
