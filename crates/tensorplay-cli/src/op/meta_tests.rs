//! Every recorded call that writes to no argument, again on tensors without elements: sizes, strides and
//! types are those of the host's results.

use std::collections::BTreeSet;
use std::path::PathBuf;

use aten::ErrorKind;
use aten::dispatch::Value;
use c10_core::Device;

use super::case::{Case, Expected};
use super::read::Lines;
use super::run::Call;
use super::values::CaseValue;

/// Operators whose result's sizes, or whose result, are in the elements: they may refuse.
const READ_ELEMENTS: [&str; 23] = [
    "_local_scalar_dense",
    "item",
    "is_nonzero",
    "equal",
    "allclose",
    "nonzero",
    "nonzero_numpy",
    "narrow",
    "argwhere",
    "masked_select",
    "index",
    "_unsafe_index",
    "unique_dim",
    "_unique2",
    "_unique",
    "unique_consecutive",
    "repeat_interleave",
    "bincount",
    "histogram",
    "tensor_split",
    "where",
    "linspace",
    "logspace",
];

/// What a result is, without its elements.
fn shape(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => {
            format!("{} {:?} {:?}", tensor.dtype(), &*tensor.sizes(), &*tensor.strides())
        }
        Value::List(values) => values.iter().map(shape).collect::<Vec<_>>().join("; "),
        other => other.kind().to_owned(),
    }
}

fn shapes(values: &[Value]) -> Vec<String> {
    values.iter().map(shape).collect()
}

fn holds_tensors(value: &CaseValue) -> bool {
    match value {
        CaseValue::Tensor(_) => true,
        CaseValue::List(items) => items.iter().any(holds_tensors),
        _ => false,
    }
}

/// What is wrong with a call on the Meta device; nothing when the host refuses it, or it is not there.
fn fault(case: &Case) -> Option<String> {
    if !case.args.iter().any(holds_tensors) {
        return None;
    }
    let host = Call::new(case, Device::CPU)?.results().ok()?;
    let name = case.op.split("::").nth(1)?.split('.').next()?;
    match Call::new(case, Device::META)?.results() {
        Ok(meta) if shapes(&meta) == shapes(&host) => None,
        Ok(meta) => Some(format!("{:?} on the host, {:?} on Meta", shapes(&host), shapes(&meta))),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotImplemented | ErrorKind::Device)
                && READ_ELEMENTS.contains(&name) =>
        {
            None
        }
        Err(error) => Some(format!("on Meta {:?}: {error}", error.kind())),
    }
}

#[test]
fn meta_gives_what_the_host_gives() {
    let mut calls = 0;
    let mut faults = Vec::new();
    let mut operators = BTreeSet::new();
    for name in ["ops", "promotion"] {
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../aten/testdata/{name}.jsonl.gz"));
        let mut lines = Lines::open(&file).unwrap();
        while let Some((line, text)) = lines.next_line().unwrap() {
            let case = Case::from_line(text).unwrap();
            let Expected::Results(results) = &case.expected else { continue };
            if !results.mutated.is_empty() || case.is_of_no_overload() {
                continue;
            }
            calls += 1;
            if let Some(fault) = fault(&case) {
                operators.insert(case.op.clone());
                faults.push(format!("{name} line {line} {}: {fault}", case.op));
            }
        }
    }
    assert!(calls > 9000, "{calls}");
    assert!(
        faults.is_empty(),
        "{} calls of {operators:?}:\n{}",
        faults.len(),
        faults[..faults.len().min(40)].join("\n")
    );
}
