//! The texts, from what the command printed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Operator, Report, Tally};

/// `docs/conformance.md`.
pub(super) fn conformance(reports: &[(&str, &str, Report)]) -> String {
    let mut text = String::from(
        "# Conformance\n\n\
         <!-- Written by `cargo xtask conformance`. -->\n\n\
         Calls recorded from PyTorch 2.15.0 on the CPU, run by `tensorplay op`. A call passes when types, sizes and \
         strides are PyTorch's, values are within a tolerance by type, and outputs share memory with the same \
         arguments at the same place; or when it is refused and nothing has changed, where PyTorch refuses it. Of \
         gradients, dtypes and sizes are PyTorch's, and values within 1e-7.\n\n\
         | file | what it holds | calls | pass | operators | whole |\n|---|---|---:|---:|---:|---:|\n",
    );
    // Writing to a string cannot fail.
    for (name, what, report) in reports {
        let Report { total, operators, operators_whole, .. } = report;
        let (calls, pass) = (total.calls(), total.pass);
        let _ = writeln!(text, "| {name} | {what} | {calls} | {pass} | {operators} | {operators_whole} |");
    }
    let mut by_operator: BTreeMap<&str, Vec<Tally>> = BTreeMap::new();
    for (index, (_, _, report)) in reports.iter().enumerate() {
        for (op, tally) in &report.per_operator {
            by_operator.entry(op).or_insert_with(|| vec![Tally::default(); reports.len()])[index] = *tally;
        }
    }
    let missing = |tallies: &[Tally]| tallies.iter().all(|tally| tally.missing == tally.calls());
    let names: Vec<&str> = reports.iter().map(|(name, ..)| *name).collect();
    let rule = "---:|".repeat(names.len());
    let _ = write!(
        text,
        "\n## By operator\n\nCalls that pass, of those that there are.\n\n| operator | {} |\n|---|{rule}\n",
        names.join(" | ")
    );
    for (op, tallies) in by_operator.iter().filter(|(_, tallies)| !missing(tallies)) {
        let of = |tally: &Tally| match tally.calls() {
            0 => String::new(),
            calls => format!("{} of {calls}", tally.pass),
        };
        let cells: Vec<String> = tallies.iter().map(of).collect();
        let _ = writeln!(text, "| `{op}` | {} |", cells.join(" | "));
    }
    let absent: Vec<&str> =
        by_operator.iter().filter(|(_, tallies)| missing(tallies)).map(|(op, _)| *op).collect();
    if !absent.is_empty() {
        let _ = write!(text, "\n## Not there\n\n`{}`\n", absent.join("`, `"));
    }
    text
}

/// `conformance.txt`: a line for each operator of a file that has calls that do not pass.
pub(super) fn not_passing(reports: &[(&str, &str, Report)]) -> String {
    let mut text = String::from(
        "# Calls that do not pass: file, operator, lines from 0. Written by `cargo xtask conformance`.\n",
    );
    for (name, _, report) in reports {
        let mut lines: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for case in &report.not_passed {
            lines.entry(&case.op).or_default().push(case.line);
        }
        for (op, lines) in lines {
            let _ = writeln!(text, "{name} {op} {}", ranges(&lines));
        }
    }
    text
}

/// Ascending numbers as `3 7-9`.
fn ranges(numbers: &[u64]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// `docs/operators.md`.
pub(super) fn operators(operators: &[Operator]) -> String {
    let mut text = String::from(
        "# Operators\n\n\
         <!-- Written by `cargo xtask conformance` from what is registered with the dispatcher. -->\n\n\
         Schemas are PyTorch's. *Backends* are those that a kernel serves of the devices in this build.\n\n\
         | operator | schema | dtypes | backends |\n|---|---|---|---|\n",
    );
    for Operator { name, schema, dtypes, backends } in operators {
        let schema = schema.strip_prefix(name.as_str()).unwrap_or(schema).replace('|', "\\|");
        let dtypes = dtypes.as_deref().unwrap_or_default();
        let _ = writeln!(text, "| `{name}` | `{schema}` | {dtypes} | {} |", backends.join(", "));
    }
    text
}
