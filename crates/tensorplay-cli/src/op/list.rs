//! `tensorplay op --list`: the operators that there are.

use std::collections::HashMap;
use std::fmt::Write;

use aten::dispatch::{Backend, DispatchKey, Dispatcher, Functionality};
use serde::Serialize;

/// An operator.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    schema: String,
    /// In words; of operators that come from elsewhere than aten's tables nothing is known.
    dtypes: Option<&'static str>,
    /// Whose tensors it has a kernel for.
    backends: Vec<&'static str>,
}

/// The list as text, a schema a line, or as a JSON array.
pub(super) fn list(json: bool) -> String {
    let operators = operators();
    let mut text = String::new();
    if json {
        text = serde_json::to_string_pretty(&operators).expect("strings have a JSON form");
        text.push('\n');
        return text;
    }
    for Listed { schema, dtypes, backends, .. } in operators {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{schema}  [{}; {}]", dtypes.unwrap_or("?"), backends.join(", "));
    }
    text
}

fn operators() -> Vec<Listed> {
    let name = |schema: &'static str| schema.split('(').next().unwrap_or_default();
    let dtypes: HashMap<&str, _> =
        aten::ops::schemas().iter().map(|line| (name(line.schema), line.dtypes)).collect();
    let listed = |operator: aten::dispatch::OperatorHandle| {
        let has_kernel =
            |backend: &Backend| operator.has_kernel_for(DispatchKey::new(Functionality::Dense, *backend));
        Some(Listed {
            name: operator.name(),
            schema: operator.schema()?.to_string(),
            dtypes: dtypes.get(operator.name()).copied().flatten(),
            backends: [Backend::Cpu, Backend::Meta]
                .iter()
                .filter(|backend| has_kernel(backend))
                .map(|b| b.name())
                .collect(),
        })
    };
    Dispatcher::global().operators().into_iter().filter_map(listed).collect()
}
