//! What came of all parts: a table on the terminal, and JSON.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::figure::{self, Figure};

/// What came of one part.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    name: String,
    good: bool,
    seconds: f64,
    /// In a few words.
    said: String,
    figures: Vec<Figure>,
    facts: BTreeMap<String, String>,
    /// The end of its output, where it is not well.
    output: String,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Report {
    parts: Vec<Outcome>,
}

impl Outcome {
    /// Reads a part's output. `failure` says why its process is not well.
    pub(crate) fn new(
        name: &str,
        took: Duration,
        printed: &str,
        errors: &str,
        failure: Option<String>,
    ) -> Self {
        let all = || printed.lines().chain(errors.lines());
        let no_driver = all().any(|line| line.starts_with("skipped: no CUDA driver"));
        let counted = all().find_map(|line| line.strip_prefix("test result: "));
        let none_ran = counted.is_some_and(|counted| counted.starts_with("ok. 0 passed"));
        let failure = failure.or_else(|| no_driver.then(|| "found no CUDA driver".to_owned()));
        let failure = failure.or_else(|| none_ran.then(|| "no test ran".to_owned()));
        let good = failure.is_none();
        // A suite says it past the capture of its tests' output, on a line of its own, once for each test.
        let skipped = all().filter(|line| line.starts_with("skipped: ")).count();
        let last = all().rfind(|line| !line.is_empty()).unwrap_or_default();
        let said = match (&failure, counted) {
            (Some(failure), _) => failure.clone(),
            (None, Some(counted)) => format!(
                "{}; {skipped} of these skipped",
                counted.split("; ").take(2).collect::<Vec<_>>().join("; ")
            ),
            (None, None) if last.contains('\t') => String::new(),
            (None, None) => last.to_owned(),
        };
        let lines: Vec<&str> = all().collect();
        let end = lines[lines.len().saturating_sub(60)..].join("\n");
        Self {
            name: name.to_owned(),
            good,
            seconds: (took.as_secs_f64() * 100.0).round() / 100.0,
            said,
            figures: printed.lines().filter_map(figure::read).collect(),
            facts: printed.lines().filter_map(figure::read_fact).collect(),
            output: if good { String::new() } else { end },
        }
    }
}

impl Report {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.parts.push(outcome);
    }

    /// Whether all parts are well, and there are any.
    pub(crate) fn good(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|part| part.good)
    }

    /// Prints what came of the last part, with its facts, and with its output where it is not well.
    pub(crate) fn print_last(&self) {
        let Some(part) = self.parts.last() else { return };
        for (name, text) in &part.facts {
            println!("{name}: {text}");
        }
        if !part.good {
            println!("FAILED: {}: {}\n{}", part.name, part.said, part.output);
        }
    }

    /// Prints the table of parts, and the table of figures.
    pub(crate) fn print(&self) {
        println!("\n{:<26} {:<7} {:>8}", "part", "", "seconds");
        for part in &self.parts {
            let mark = if part.good { "ok" } else { "FAILED" };
            println!("{:<26} {:<7} {:>8.1}  {}", part.name, mark, part.seconds, part.said);
        }
        for part in self.parts.iter().filter(|part| !part.figures.is_empty()) {
            println!("\n{}", part.name);
            for Figure { name, value, unit } in &part.figures {
                println!("  {name:<62} {value:>14.0} {unit}");
            }
        }
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let text = serde_json::json!({ "version": version, "good": self.good(), "parts": self.parts });
        std::fs::write(path, format!("{text:#}\n"))
    }
}

#[cfg(test)]
mod tests;
