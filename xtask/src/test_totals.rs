//! Adds up what test binaries say of themselves.

use std::fmt;

/// Counts over many test binaries. Printed, it is the closing line of `cargo xtask test`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    /// libtest's count, which has among it the tests that said `skipped: why`.
    passed: usize,
    failed: usize,
    ignored: usize,
    said_skipped: usize,
}

impl Totals {
    /// Takes in one line of a test binary's output.
    ///
    /// Two kinds of line count: libtest's `test result: …`, and `skipped: why`, which a test that lacks
    /// something (a GPU, a driver) writes once, straight to standard error, before it returns.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count_before(result, "passed");
            self.failed += count_before(result, "failed");
            self.ignored += count_before(result, "ignored");
        } else if line.starts_with("skipped: ") || line.contains(" ... skipped: ") {
            self.said_skipped += 1;
        }
    }

    /// Counts a run as a test: one that is no test binary's, or that failed for another reason than a failed test.
    pub(crate) fn add_run(&mut self, good: bool) {
        if good {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// How many failed.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    /// Whether any test ran, and none failed.
    pub(crate) fn good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.said_skipped);
        write!(f, "{passed} passed, {} failed", self.failed)?;
        match self.ignored + self.said_skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

/// The number in front of `word` in `ok. 12 passed; 0 failed; …`.
fn count_before(result: &str, word: &str) -> usize {
    let words: Vec<_> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    let count = words.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0].parse());
    count.and_then(Result::ok).unwrap_or(0)
}

#[cfg(test)]
mod tests;
