//! The reading of cases, the rules of comparison, and the texts of values.

use std::io::{BufReader, Read};

use flate2::read::GzDecoder;
use serde_json::{Value as Json, json};

use super::case::{Case, named};
use super::judge::{Verdict, judge};
use super::outcome::{Alias, Outcome};
use super::read::Lines;
use super::report::OpReport;
use super::values::CaseValue;

/// Results for recorded cases, right and wrong in many ways, with the verdicts of the corpus's own checker.
const JUDGED: &[u8] = include_bytes!("../../testdata/conformance/judge.jsonl.gz");

/// What a line of results says.
fn outcome(json: &Json) -> Result<Outcome, String> {
    if json.is_null() || json["missing"] == true {
        return Ok(Outcome::Missing);
    }
    if let Some(text) = json["error"].as_str() {
        return Ok(Outcome::Refused {
            text: text.into(),
            kind: json["kind"].as_str().unwrap_or_default().into(),
        });
    }
    let fields = json.as_object().unwrap();
    Ok(Outcome::Returned {
        out: CaseValue::list_from_json(json["out"].as_array().unwrap())?,
        mutated: named(fields, "mutated")?,
        alias: Alias::list_from_json(fields.get("alias"))?,
        grads: fields.contains_key("grads").then(|| named(fields, "grads")).transpose()?,
    })
}

#[test]
fn verdicts_are_those_of_the_corpus_checker() {
    let mut text = String::new();
    GzDecoder::new(JUDGED).read_to_string(&mut text).unwrap();
    let mut counts = [0; 4];
    for line in text.lines() {
        let entry: Json = serde_json::from_str(line).unwrap();
        let case = Case::from_line(&entry["case"].to_string()).unwrap();
        for pair in entry["results"].as_array().unwrap() {
            // A result that cannot be read is wrong.
            let verdict = match outcome(&pair[1]) {
                Ok(outcome) => judge(&case, &outcome),
                Err(reason) => Verdict::Fail(reason),
            };
            let (index, name) = match verdict {
                Verdict::Pass => (0, "pass"),
                Verdict::Fail(_) => (1, "fail"),
                Verdict::Refused(_) => (2, "refused"),
                Verdict::Missing => (3, "missing"),
            };
            counts[index] += 1;
            assert_eq!(name, pair[0], "{}: {}: {verdict:?}", entry["case"], pair[1]);
        }
    }
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn a_fault_fails_whatever_was_expected() {
    let refused = json!({"op": "aten::mm", "args": [], "kwargs": {}, "error": "RuntimeError", "core": true});
    let case = Case::from_line(&refused.to_string()).unwrap();
    let fault = Outcome::Faulty("panicked: index".into());
    assert_eq!(judge(&case, &fault), Verdict::Fail("panicked: index".into()));
    assert_eq!(fault.to_line(3), "{\"line\":3,\"out\":[],\"fault\":\"panicked: index\"}\n");
}

/// The value as it is written after being read.
fn again(text: &str) -> String {
    let json: Json = serde_json::from_str(text).unwrap();
    let mut written = String::new();
    CaseValue::from_json(&json).unwrap().write_to(&mut written);
    written
}

#[test]
fn values_are_written_as_they_were_read() {
    for text in [
        "null",
        "true",
        "3",
        "-9223372036854775808",
        "18446744073709551615",
        "3.0",
        "-0.0",
        "1e-5",
        "0.1",
        "1.7976931348623157e308",
        r#"{"f":"nan"}"#,
        r#"{"f":"-inf"}"#,
        r#"{"c":[1.0,"nan"]}"#,
        r#""ij,jk->ik \" \n""#,
        r#"{"dtype":"bfloat16"}"#,
        r#"{"dtype":"bcomplex32"}"#,
        r#"{"memory_format":"contiguous"}"#,
        r#"{"memory_format":"channels_last_3d"}"#,
        r#"{"layout":"strided"}"#,
        r#"{"device":"cpu"}"#,
        r#"{"ref":"1.2"}"#,
        r#"[1,[2.5,null],[]]"#,
        r#"{"t":{"dtype":"float32","size":[2,2],"stride":[1,2],"offset":1,"data":[0.1,1.5,-0.0,"nan",16777216.0,1e-45,"-inf"]}}"#,
        r#"{"t":{"dtype":"float16","size":[3],"stride":[1],"offset":0,"data":[0.099975586,65504.0,6e-8]}}"#,
        r#"{"t":{"dtype":"bfloat16","size":[2],"stride":[1],"offset":0,"data":[0.100097656,3.3895314e38]}}"#,
        r#"{"t":{"dtype":"float64","size":[1],"stride":[1],"offset":0,"data":[0.1]}}"#,
        r#"{"t":{"dtype":"complex64","size":[1],"stride":[1],"offset":0,"data":[[0.1,"inf"]],"conj":true}}"#,
        r#"{"t":{"dtype":"complex32","size":[1],"stride":[1],"offset":0,"data":[[0.5,1.0]],"conj":true,"neg":true}}"#,
        r#"{"t":{"dtype":"bool","size":[2],"stride":[0],"offset":0,"data":[true]}}"#,
        r#"{"t":{"dtype":"uint64","size":[1],"stride":[1],"offset":0,"data":[18446744073709551615]}}"#,
        r#"{"t":{"dtype":"int8","size":[2],"stride":[1],"offset":0,"data":[-128,127]}}"#,
        r#"{"t":{"dtype":"float8_e5m2","size":[2],"stride":[1],"offset":0,"data":[0.25,"inf"]}}"#,
        r#"{"t":{"dtype":"int64","size":[0,5],"stride":[5,1],"offset":0,"data":[]}}"#,
        r#"{"t":{"dtype":"float32","size":[3],"stride":[1],"offset":0,"data":null}}"#,
    ] {
        // `6e-8` is the shortest text of the number as a float of 16 bits, not of 32.
        let text = text.replace("6e-8", "5.9604645e-8");
        assert_eq!(again(&text), text);
    }
}

/// The complaint about a file of these lines.
fn complaint(bytes: &'static [u8]) -> String {
    let mut lines = Lines::new(BufReader::new(bytes)).unwrap();
    loop {
        match lines.next_line() {
            Err((line, reason)) => return format!("line {line}: {reason}"),
            Ok(None) => return "nothing is wrong".into(),
            Ok(Some((line, text))) => {
                if let Err(reason) = Case::from_line(text) {
                    return format!("line {line}: {reason}");
                }
            }
        }
    }
}

/// A case whose one argument is this.
fn with_argument(value: &str) -> String {
    format!(r#"{{"op":"aten::abs","args":[{value}],"kwargs":{{}},"out":[]}}"#)
}

fn with_tensor(fields: &str) -> String {
    with_argument(&format!(r#"{{"t":{{{fields}}}}}"#))
}

#[test]
fn hostile_lines_are_refused_with_their_number() {
    let tensors = [
        r#""size":[2],"stride":[1],"data":[1.0,2.0]"#,
        r#""dtype":"float31","size":[2],"stride":[1],"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[3],"stride":[1],"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[2],"stride":[1],"offset":1,"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[2],"stride":[9223372036854775807],"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[2,2],"stride":[1],"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[-1],"stride":[1],"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[2],"stride":[-1],"offset":1,"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[2],"stride":[1],"offset":-1,"data":[1.0,2.0]"#,
        r#""dtype":"float32","size":[1000000000,1000000000],"stride":[0,0],"data":[1.0]"#,
        r#""dtype":"float32","size":[9223372036854775807,9223372036854775807,0],"stride":[0,0,0],"data":[]"#,
        r#""dtype":"float32","size":[1],"stride":[1],"data":[1e39]"#,
        r#""dtype":"float32","size":[1],"stride":[1],"data":["no"]"#,
        r#""dtype":"float32","size":[1],"stride":[1],"data":[true]"#,
        r#""dtype":"int8","size":[2],"stride":[1],"data":[1,128]"#,
        r#""dtype":"int64","size":[1],"stride":[1],"data":[1.0]"#,
        r#""dtype":"bool","size":[1],"stride":[1],"data":[1]"#,
        r#""dtype":"complex64","size":[1],"stride":[1],"data":[[1.0]]"#,
        r#""dtype":"float32","size":[1],"stride":[1],"data":"AAAA""#,
        r#""dtype":"bcomplex32","size":[1],"stride":[1],"data":[1.0]"#,
        r#""dtype":"float32","size":[1],"stride":[1],"data":[1.0],"conj":1"#,
    ];
    let values =
        [r#"{"t":3}"#, r#"{"f":"infinity"}"#, r#"{"c":[1.0]}"#, r#"{"q":"x"}"#, "{}", r#"{"a":1,"b":2}"#];
    let cases = [
        "nonsense".to_owned(),
        "[1]".to_owned(),
        "{}".to_owned(),
        r#"{"op":3,"args":[],"out":[]}"#.to_owned(),
        r#"{"op":"abs","args":[],"out":[]}"#.to_owned(),
        r#"{"op":"aten::abs","args":{},"out":[]}"#.to_owned(),
        r#"{"op":"aten::abs","args":[]}"#.to_owned(),
        r#"{"op":"aten::abs","args":[],"kwargs":[],"out":[]}"#.to_owned(),
        r#"{"op":"aten::abs","args":[],"out":[],"alias":[{"out":"0"}]}"#.to_owned(),
        r#"{"op":"aten::abs","args":[],"out":[],"grads":{}}"#.to_owned(),
        r#"{"op":"aten::abs","args":[1],"out":[],"requires_grad":["0"],"grad_out":{},"grads":{}}"#.to_owned(),
        r#"{"op":"aten::cat","args":[[1]],"out":[],"requires_grad":["0.1"],"grad_out":{},"grads":{}}"#
            .to_owned(),
        r#"{"op":"aten::abs","args":[],"out":[],"requires_grad":[],"grad_out":{"0":1},"grads":{}}"#
            .to_owned(),
        r#"{"op":"aten::abs","args":[],"out":[],"requires_grad":[],"grad_out":{},"grads":{"0":1.0}}"#
            .to_owned(),
        with_argument(&"[".repeat(100_000)),
    ];
    let mut text = String::new();
    let cases = cases.into_iter().chain(values.map(with_argument)).chain(tensors.map(with_tensor));
    for case in cases {
        let file = format!("\n{}\n{case}\n", with_argument("1")).into_bytes();
        text += &complaint(file.leak());
        text.push('\n');
    }
    insta::assert_snapshot!(text);
    assert_eq!(complaint(b"\xff\n"), "line 0: invalid utf-8 sequence of 1 bytes from index 0");
    assert_eq!(complaint(b"\x1f\x8b\x08"), "line 0: unexpected end of file");
    assert_eq!(complaint(b""), "nothing is wrong");
}

#[test]
fn the_report_counts_operators_and_shows_what_differs() {
    let mut report = OpReport::default();
    report.add(0, "aten::abs", Verdict::Pass);
    report.add(1, "aten::abs", Verdict::Fail("out.0: dtype\u{1b} float32 != int64".into()));
    report.add(2, "aten::mm", Verdict::Pass);
    report.add(3, "aten::mv", Verdict::Missing);
    report.add(4, "aten::mv", Verdict::Refused("mv: no".into()));
    report.finish();
    insta::assert_snapshot!(report.to_text(10, true), @r"
    line 1 aten::abs: fail: out.0: dtype\u{1b} float32 != int64
    line 4 aten::mv: refused: mv: no
    aten::abs: pass 1, fail 1
    aten::mm: pass 1
    aten::mv: refused 1, missing 1
    2 of 5 cases pass (40.00 %): fail 1, refused 1, missing 1; 1 of 3 operators pass whole
    ");
    insta::assert_snapshot!(report.to_text(0, false), @"2 of 5 cases pass (40.00 %): fail 1, refused 1, missing 1; 1 of 3 operators pass whole");
    insta::assert_snapshot!(report.to_json());
}
