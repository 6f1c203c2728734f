//! `cargo xtask conformance`: the recorded calls of PyTorch's operators, run; what passes, written down.
//!
//! Three texts are made: the table `docs/conformance.md`, the list of the calls that do not pass
//! (`crates/aten/testdata/conformance.txt`, which the tests hold every change against), and
//! `docs/operators.md`, the list of the operators that there are. CI makes them again and refuses others.

mod table;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::workspace::{cargo, root};
use crate::{Result, step};

/// The files of calls, below [`FOLDER`], and what they hold.
const FILES: [(&str, &str); 4] = [
    ("ops", "calls and their results"),
    ("grads", "calls and the gradients of their arguments"),
    ("promotion", "type promotion"),
    ("errors", "calls that are refused"),
];

const FOLDER: &str = "crates/aten/testdata";

/// What `tensorplay op --json` prints.
#[derive(Debug, Deserialize)]
struct Report {
    total: Tally,
    operators: usize,
    operators_whole: usize,
    per_operator: std::collections::BTreeMap<String, Tally>,
    not_passed: Vec<NotPassed>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tally {
    pass: usize,
    fail: usize,
    refused: usize,
    missing: usize,
}

#[derive(Debug, Deserialize)]
struct NotPassed {
    line: u64,
    op: String,
}

/// What `tensorplay op --list --json` prints of an operator.
#[derive(Debug, Deserialize)]
struct Operator {
    name: String,
    schema: String,
    dtypes: Option<String>,
    backends: Vec<String>,
}

/// Runs the calls and writes the texts.
///
/// # Errors
/// The command could not be built or run, or a text not be written.
pub(crate) fn run() -> Result {
    for (path, text) in texts()? {
        std::fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
        println!("wrote {path}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the texts again, and compares.
///
/// # Errors
/// One of them is another than what stands in the repository.
pub(crate) fn check() -> Result<()> {
    for (path, text) in texts()? {
        let stands =
            std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        if stands != text {
            return Err(format!(
                "{path} is not what the operators give now; `cargo xtask conformance` writes it"
            )
            .into());
        }
    }
    Ok(())
}

fn texts() -> Result<[(&'static str, String); 3]> {
    step::must_succeed(cargo().args(["build", "--quiet", "--package", "tensorplay-cli"]))?;
    let mut reports = Vec::new();
    for (name, what) in FILES {
        let cases = Path::new(FOLDER).join(format!("{name}.jsonl.gz"));
        let report: Report = json_of(tensorplay().arg(cases))?;
        let Tally { pass, .. } = report.total;
        println!("{name}: {pass} of {} calls pass", report.total.calls());
        reports.push((name, what, report));
    }
    let operators: Vec<Operator> = json_of(tensorplay().arg("--list"))?;
    Ok([
        ("docs/conformance.md", table::conformance(&reports)),
        ("crates/aten/testdata/conformance.txt", table::not_passing(&reports)),
        ("docs/operators.md", table::operators(&operators)),
    ])
}

fn tensorplay() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tensorplay-cli", "--", "op", "--json"]);
    command
}

/// What a command prints. It ends with 1 when a call does not pass, which is for the texts to say.
fn json_of<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("`{}` failed: {}", step::text_of(command), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

impl Tally {
    fn calls(self) -> usize {
        self.pass + self.fail + self.refused + self.missing
    }
}
