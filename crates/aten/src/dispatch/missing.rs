//! What is said to a call that finds no kernel: which key it had, and for which there are kernels.

use std::fmt::Write;

use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;
use super::operator::OperatorHandle;
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

/// The keys under which calls find a kernel, and a line for each.
fn available(operator: OperatorHandle) -> (String, String) {
    let (mut list, mut lines) = (Vec::new(), String::new());
    for index in 0..NUM_RUNTIME_ENTRIES {
        if let (Some(kernel), source) = operator.0.slot(index) {
            let key = DispatchKey::from_table_index(index);
            list.push(key.to_string());
            writeln!(lines, "{key}: {kernel} [{source}]").expect("a string takes all");
        }
    }
    (list.join(", "), lines)
}
