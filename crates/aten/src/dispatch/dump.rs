//! What a dispatcher holds, as text: registrations as they were made, and the tables that follow from them.

use std::fmt::Write;

use super::dispatcher::{Dispatcher, computed};
use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::missing;
use super::registry::{Registrations, Registry, refused};
use crate::error::Result;

const TAKES_ALL: &str = "a string takes all";

impl Dispatcher {
    /// What is registered for an operator, as PyTorch prints it (`dumpState`); nothing if nothing is. Of several
    /// kernels for one key those that another overrides are marked inactive.
    pub fn dump_state(&self, name: &str) -> Option<String> {
        self.registry().of(name).map(|registrations| state(name, registrations))
    }

    /// The kernel of each runtime key of an operator, and why it is that (`dumpComputedTable`); nothing if there
    /// is no such operator.
    pub fn dump_computed_table(&self, name: &str) -> Option<String> {
        let registry = self.registry();
        registry.of(name)?;
        let operator = self.find_or_make(name, &registry);
        Some(missing::table(operator, |_| true))
    }

    /// The operators for which there are kernels and no definition (`findDanglingImpls`), as
    /// [`dump_state`](Self::dump_state) has them.
    pub fn dangling_impls(&self) -> Vec<String> {
        let registry = self.registry();
        let dangling = registry.operators().filter(|(_, registrations)| registrations.definition.is_none());
        dangling.map(|(name, registrations)| state(name, registrations)).collect()
    }

    /// Checks that the tables are what the registrations say, and the registrations what their rules say
    /// (`checkInvariants`).
    ///
    /// # Errors
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) with what does not hold. That would be a defect
    /// of this crate.
    pub fn check_invariants(&self) -> Result<()> {
        let registry = self.registry();
        let names = self.all_names();
        names.iter().try_for_each(|name| self.check_operator(name, &registry))
    }

    fn check_operator(&self, name: &str, registry: &Registry) -> Result<()> {
        let operator = self.find_or_make(name, registry);
        let registrations = registry.of(name);
        for (key, entries) in registrations.iter().flat_map(|registrations| &registrations.kernels) {
            let plain = entries.iter().filter(|entry| !entry.overrides).count();
            let ordered = entries.is_sorted_by_key(|entry| !entry.overrides);
            if plain > 1 || !ordered || entries.is_empty() {
                return Err(refused(format!("I2: the kernels of {name} for {key} do not go together")));
            }
        }
        let present = registrations.map(Registrations::present);
        for index in 0..NUM_RUNTIME_ENTRIES {
            let key = DispatchKey::from_table_index(index);
            let (kernel, source) = computed(key, registrations.zip(present.as_ref()), registry);
            let (found, found_source) = operator.0.slot(index);
            let same = match (kernel, found) {
                (Some(kernel), Some(found)) => std::ptr::eq(kernel, found),
                (kernel, found) => kernel.is_none() && found.is_none(),
            };
            if !same || source != found_source {
                return Err(refused(format!(
                    "I6: {name} has {found:?} for {key}, and should have {kernel:?}"
                )));
            }
        }
        if operator.0.masks() != operator.0.computed_masks() {
            return Err(refused(format!("I7: {name} leaves out other keys than the fallthrough ones")));
        }
        if !operator.0.has_usual() {
            return Err(refused(format!("I7: {name} has other kernels for the usual keys than its table")));
        }
        let schema = registrations.and_then(|registrations| registrations.definition).map(|d| d.schema);
        if operator.schema().map(std::ptr::from_ref) != schema.map(std::ptr::from_ref) {
            return Err(refused(format!("I8: {name} has another schema than it was defined with")));
        }
        Ok(())
    }
}

fn state(name: &str, registrations: &Registrations) -> String {
    let mut text = format!("name: {name}\n");
    match &registrations.definition {
        None => text.push_str("schema: (none)\n"),
        Some(definition) => {
            let kind = if definition.is_inferred { "CONSERVATIVE" } else { "FROM_SCHEMA" };
            let (schema, place) = (definition.schema, definition.place);
            writeln!(text, "schema: {schema}\ndebug: registered at {place}\nalias analysis kind: {kind}")
                .expect(TAKES_ALL);
        }
    }
    let mut keys: Vec<_> = registrations.kernels.iter().collect();
    keys.sort_by_key(|(key, _)| key.table_index().unwrap_or(NUM_RUNTIME_ENTRIES + usize::from(key.number())));
    for (key, entries) in keys {
        let alias = if key.is_alias() { "[alias]" } else { "" };
        for (at, entry) in entries.iter().enumerate() {
            let inactive = if at == 0 { "" } else { " (inactive)" };
            let kernel = entry.kernel;
            let inferred = kernel.inferred().map_or("(none)".to_owned(), ToString::to_string);
            writeln!(text, "{key}{alias}{inactive}: {kernel} :: {inferred} {}", kernel.forms())
                .expect(TAKES_ALL);
        }
    }
    text
}
