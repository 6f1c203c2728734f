//! `tensorplay op`: recorded calls of PyTorch's operators. What has passed once passes on.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../aten/testdata").join(name)
}

/// The calls of a file that are known not to pass: operator and line.
fn known(file: &str) -> BTreeSet<(String, u64)> {
    let list = std::fs::read_to_string(testdata("conformance.txt")).unwrap();
    let mut known = BTreeSet::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        if words.next() != Some(file) {
            continue;
        }
        let op = words.next().unwrap();
        for range in words {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let lines = first.parse().unwrap()..=last.parse().unwrap();
            known.extend(lines.map(|line: u64| (op.to_owned(), line)));
        }
    }
    known
}

/// No call fails that is not known to.
fn assert_no_worse(file: &str) {
    let output = run(&["op".into(), testdata(&format!("{file}.jsonl.gz")).into_os_string(), "--json".into()]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let known = known(file);
    let mut worse = Vec::new();
    for case in report["not_passed"].as_array().unwrap() {
        let (op, line) = (case["op"].as_str().unwrap(), case["line"].as_u64().unwrap());
        if !known.contains(&(op.to_owned(), line)) {
            worse.push(format!("line {line} {op}: {} {}", case["verdict"], case["reason"]));
        }
    }
    assert!(
        worse.is_empty(),
        "{} calls of {file} do not pass any more:\n{}",
        worse.len(),
        worse[..worse.len().min(40)].join("\n")
    );
}

#[test]
fn calls_that_passed_pass() {
    assert_no_worse("ops");
}

#[test]
fn gradients_that_passed_pass() {
    assert_no_worse("grads");
}

#[test]
fn promotions_that_passed_pass() {
    assert_no_worse("promotion");
}

#[test]
fn refusals_that_passed_pass() {
    assert_no_worse("errors");
}

fn write_cases(folder: &tempfile::TempDir, cases: &[Value]) -> PathBuf {
    let file = folder.path().join("cases.jsonl");
    let text: String = cases.iter().map(|case| format!("{case}\n")).collect();
    std::fs::write(&file, text).unwrap();
    file
}

/// A call of `add` whose result is said to be this.
fn add(result: f64) -> Value {
    let tensor = |value: f64| json!({"t": {"dtype": "float32", "size": [1], "stride": [1], "offset": 0, "data": [value]}});
    json!({"op": "aten::add.Tensor", "args": [tensor(1.0), tensor(2.0)], "kwargs": {}, "out": [tensor(result)], "mutated": {}, "core": true})
}

#[test]
fn results_are_written_and_the_exit_code_says_whether_all_passed() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = json!({"op": "aten::no_such", "args": [], "kwargs": {}, "out": [], "core": false});
    let cases = write_cases(&folder, &[add(3.0), add(4.0), unknown]);
    let results = folder.path().join("results.jsonl");
    let op = |arguments: &[&str]| {
        tensorplay().arg("op").arg(&cases).arg("--results").arg(&results).args(arguments).output().unwrap()
    };
    let output = op(&["--per-op"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&output), @"
    line 1 aten::add.Tensor: fail: out.0: element 0: 3.0 != 4.0
    aten::add.Tensor: pass 1, fail 1
    aten::no_such: missing 1
    1 of 3 cases pass (33.33 %): fail 1, refused 0, missing 1; 0 of 2 operators pass whole
    ");
    insta::assert_snapshot!(std::fs::read_to_string(&results).unwrap(), @r#"
    {"line":0,"out":[{"t":{"dtype":"float32","size":[1],"stride":[1],"offset":0,"data":[3.0]}}],"mutated":{},"alias":[]}
    {"line":1,"out":[{"t":{"dtype":"float32","size":[1],"stride":[1],"offset":0,"data":[3.0]}}],"mutated":{},"alias":[]}
    {"line":2,"missing":true}
    "#);
    assert_eq!(op(&["--core"]).status.code(), Some(1));
    let passing = write_cases(&folder, &[add(3.0)]);
    assert_eq!(run(&["op".into(), passing.into_os_string()]).status.code(), Some(0));
}

/// `x * y` at 2 and 3, whose gradient with respect to `x` is said to be this.
fn mul_with_gradient(gradient: f64) -> Value {
    let tensor = |value: f64| json!({"t": {"dtype": "float64", "size": [1], "stride": [1], "offset": 0, "data": [value]}});
    json!({"op": "aten::mul.Tensor", "args": [tensor(2.0), tensor(3.0)], "kwargs": {}, "requires_grad": ["0", "1"], "out": [tensor(6.0)],
        "grad_out": {"0": tensor(10.0)}, "grads": {"0": tensor(gradient), "1": tensor(20.0)}, "core": true})
}

#[test]
fn gradients_are_computed_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut without_output = mul_with_gradient(30.0);
    without_output["grad_out"] = json!({"1": without_output["grad_out"]["0"]});
    let cases = write_cases(&folder, &[mul_with_gradient(30.0), mul_with_gradient(31.0), without_output]);
    let results = folder.path().join("results.jsonl");
    let output = tensorplay().arg("op").arg(&cases).arg("--results").arg(&results).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&output), @"
    line 1 aten::mul.Tensor: fail: grad 0: element 0: 30.0 != 31.0
    line 2 aten::mul.Tensor: refused: output 1 is no tensor
    1 of 3 cases pass (33.33 %): fail 1, refused 1, missing 0; 0 of 1 operators pass whole
    ");
    insta::assert_snapshot!(std::fs::read_to_string(&results).unwrap(), @r#"
    {"line":0,"out":[{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[6.0]}}],"mutated":{},"alias":[],"grads":{"0":{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[30.0]}},"1":{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[20.0]}}}}
    {"line":1,"out":[{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[6.0]}}],"mutated":{},"alias":[],"grads":{"0":{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[30.0]}},"1":{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[20.0]}}}}
    {"line":2,"error":"output 1 is no tensor","kind":"InvalidArgument"}
    "#);
}

#[test]
fn files_of_calls_that_are_no_use_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let cases = write_cases(&folder, &[add(3.0), json!({"op": 3})]);
    let reason = |arguments: &[&str]| {
        let output = tensorplay().arg("op").args(arguments).output().unwrap();
        complaint(&output).replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    let file = cases.to_str().unwrap();
    insta::assert_snapshot!(reason(&[file]), @"error: FOLDER/cases.jsonl: line 1: a case has an `op`");
    insta::assert_snapshot!(reason(&["/no/such/file"]), @"error: /no/such/file: No such file or directory (os error 2)");
    insta::assert_snapshot!(reason(&[folder.path().to_str().unwrap()]), @"error: FOLDER: is a directory, not a file of cases");
    insta::assert_snapshot!(reason(&[file, "--results", file]), @"error: FOLDER/cases.jsonl: the results would overwrite the cases");
    write_cases(&folder, &[add(3.0)]);
    insta::assert_snapshot!(reason(&[file, "--op", "aten::sub"]), @"error: FOLDER/cases.jsonl: no case is chosen");
}

#[test]
fn the_operators_are_listed() {
    let output = run(&["op", "--list"]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(
        text.contains("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor  ["),
        "{text}"
    );
    let json: Value = serde_json::from_str(&stdout(&run(&["op", "--list", "--json"]))).unwrap();
    assert_eq!(json.as_array().unwrap().len(), text.lines().count());
}
