//! What is said to a call that finds no kernel: which key it had, and for which there are kernels.

use std::fmt::Write;

use super::kernel::Kernel;
use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;
use super::operator::OperatorHandle;
use super::table::KernelSource;
use crate::error::Error;

/// The error of a call of `operator` with `keys`.
#[cold]
pub(super) fn error(operator: OperatorHandle, keys: DispatchKeySet) -> Error {
    let name = operator.name();
    if operator.schema().is_none() {
        return Error::not_implemented(format!(
            "Could not find schema for {name}. It was never defined, or its definition was taken back."
        ));
    }
    let (list, lines) = available(operator);
    let highest = keys.highest_priority_key();
    let sentence = match highest {
        DispatchKey::Undefined => format!(
            "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no \
             fallback function is registered for schema {name}. This usually means that this function requires a \
             non-empty list of Tensors, or that you (the operator writer) forgot to register a fallback function. \
             Available functions are [{list}]."
        ),
        DispatchKey::Meta => format!(
            "{name}: attempted to run this operator with Meta tensors, but there was no fake kernel or Meta kernel \
             registered for this operator. '{name}' is only available for these backends: [{list}]."
        ),
        _ => format!(
            "Could not run '{name}' with arguments from the '{highest}' backend. This could be because the operator \
             doesn't exist for this backend, or because the library that has its kernel was not registered. \
             '{name}' is only available for these backends: [{list}]."
        ),
    };
    Error::not_implemented(format!("{sentence}\n\n{lines}"))
}

/// The keys under which calls find something to do, and a line for each.
fn available(operator: OperatorHandle) -> (String, String) {
    let serves = |kernel: &Kernel| !kernel.is_fallthrough();
    let keys = rows(operator).filter(|(_, kernel, _)| serves(kernel)).map(|(key, ..)| key.to_string());
    (keys.collect::<Vec<_>>().join(", "), table(operator, serves))
}

/// A line for each slot whose kernel is one of those.
pub(super) fn table(operator: OperatorHandle, of: impl Fn(&Kernel) -> bool) -> String {
    let mut lines = String::new();
    for (key, kernel, source) in rows(operator).filter(|(_, kernel, _)| of(kernel)) {
        writeln!(lines, "{key}: {kernel} [{source}]").expect("a string takes all");
    }
    lines
}

fn rows(operator: OperatorHandle) -> impl Iterator<Item = (DispatchKey, &'static Kernel, KernelSource)> {
    (0..NUM_RUNTIME_ENTRIES).filter_map(move |index| {
        let (kernel, source) = operator.0.slot(index);
        Some((DispatchKey::from_table_index(index), kernel?, source))
    })
}
