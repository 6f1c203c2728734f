//! [`OpReport`]: how many cases of each operator passed.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::judge::Verdict;

/// Reasons are cut to so many characters on the page.
const LONGEST_REASON: usize = 200;

/// The result of `tensorplay op`.
#[derive(Debug, Default, Serialize)]
pub(super) struct OpReport {
    /// Over all operators.
    pub(super) total: Tally,
    /// How many operators have cases, and how many of those pass whole.
    pub(super) operators: usize,
    pub(super) operators_whole: usize,
    /// By operator.
    pub(super) per_operator: BTreeMap<String, Tally>,
    /// The cases that did not pass, in the order of the file.
    pub(super) not_passed: Vec<NotPassed>,
}

/// Cases counted by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) pass: usize,
    /// Something differs.
    pub(super) fail: usize,
    /// Refused though PyTorch serves it.
    pub(super) refused: usize,
    /// There is no such operator.
    pub(super) missing: usize,
}

/// A case that did not pass.
#[derive(Debug, Serialize)]
pub(super) struct NotPassed {
    pub(super) line: u64,
    pub(super) op: String,
    /// `fail`, `refused` or `missing`.
    pub(super) verdict: &'static str,
    pub(super) reason: String,
}

impl OpReport {
    /// Counts a case.
    pub(super) fn add(&mut self, line: u64, op: &str, verdict: Verdict) {
        let tally = self.per_operator.entry(op.to_owned()).or_default();
        for tally in [tally, &mut self.total] {
            *tally.count_of(&verdict) += 1;
        }
        let (verdict, reason) = match verdict {
            Verdict::Pass => return,
            Verdict::Fail(reason) => ("fail", reason),
            Verdict::Refused(reason) => ("refused", reason),
            Verdict::Missing => ("missing", String::new()),
        };
        self.not_passed.push(NotPassed { line, op: op.to_owned(), verdict, reason });
    }

    /// Says that there are no more.
    pub(super) fn finish(&mut self) {
        self.operators = self.per_operator.len();
        self.operators_whole = self.per_operator.values().filter(|tally| tally.is_whole()).count();
    }

    /// Whether every case passed.
    pub(super) fn is_whole(&self) -> bool {
        self.total.is_whole()
    }

    /// The report as one JSON object.
    pub(super) fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("numbers and strings have a JSON form");
        json.push('\n');
        json
    }

    /// The report to read: so many of the cases that did not pass, each operator if asked for, and the total.
    pub(super) fn to_text(&self, shown: usize, per_operator: bool) -> String {
        let mut text = String::new();
        let reasons = self.not_passed.iter().filter(|case| case.verdict != "missing");
        // Writing to a string cannot fail.
        for NotPassed { line, op, verdict, reason } in reasons.take(shown) {
            let _ = writeln!(text, "line {line} {op}: {verdict}: {}", on_a_page(reason));
        }
        if per_operator {
            for (op, tally) in &self.per_operator {
                let _ = writeln!(text, "{op}: {}", tally.to_text());
            }
        }
        let Tally { pass, fail, refused, missing } = self.total;
        let cases = self.total.cases();
        let percent = 100.0 * pass as f64 / cases.max(1) as f64;
        let _ = writeln!(
            text,
            "{pass} of {cases} cases pass ({percent:.2} %): fail {fail}, refused {refused}, missing {missing}; \
             {} of {} operators pass whole",
            self.operators_whole, self.operators
        );
        text
    }
}

impl Tally {
    pub(super) fn cases(&self) -> usize {
        self.pass + self.fail + self.refused + self.missing
    }

    fn is_whole(&self) -> bool {
        self.pass == self.cases()
    }

    fn count_of(&mut self, verdict: &Verdict) -> &mut usize {
        match verdict {
            Verdict::Pass => &mut self.pass,
            Verdict::Fail(_) => &mut self.fail,
            Verdict::Refused(_) => &mut self.refused,
            Verdict::Missing => &mut self.missing,
        }
    }

    /// The counts that are not zero.
    fn to_text(self) -> String {
        let Self { pass, fail, refused, missing } = self;
        let counts = [("pass", pass), ("fail", fail), ("refused", refused), ("missing", missing)];
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// The beginning of a reason. It may hold what a terminal acts on.
fn on_a_page(reason: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    reason.chars().take(LONGEST_REASON).map(escape).collect()
}
