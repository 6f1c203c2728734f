//! Which paths of the allocator the random traces reach: by setting, and by the lines that PyTorch prints.

use std::collections::BTreeMap;
use std::fmt;

use super::compare;
use super::run::{Output, Programs};
use super::trace::Trace;
use crate::Result;

/// Counts over traces, a row for each setting's name.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    rows: BTreeMap<String, Row>,
    /// Lines by their first word, and what the driver and the allocator's entries say by their first two.
    lines: BTreeMap<String, usize>,
    /// Refusals by command and text: how many, and in how many traces one came first.
    refusals: BTreeMap<String, (usize, usize)>,
    /// How PyTorch itself failed, by its last words.
    failures: BTreeMap<String, usize>,
    traces: usize,
}

#[derive(Debug, Default)]
struct Row {
    traces: usize,
    allocations: usize,
    out_of_memory: usize,
    /// Allocations before which the driver took memory back.
    freed_first: usize,
    /// Traces with the property.
    retries: usize,
    oversize: usize,
    splits: usize,
    deferred: usize,
    /// Traces that come out differently without the setting.
    acts: usize,
}

impl Coverage {
    /// Takes in a trace.
    ///
    /// # Errors
    /// The oracle could not be started.
    pub(crate) fn add(&mut self, trace: &Trace, programs: &Programs) -> Result<()> {
        let output = programs.run_oracle(trace)?;
        self.traces += 1;
        self.count_lines(&output);
        if output.failed {
            return Ok(());
        }
        let settings = trace.settings();
        if settings.is_empty() {
            self.rows.entry("(defaults)".to_owned()).or_default().add(&output);
        }
        for (place, setting) in settings.iter().enumerate() {
            let (key, value) = setting.split_once(':').unwrap_or((setting, ""));
            let form = if value.starts_with('[') { " (list)" } else { "" };
            let row = self.rows.entry(format!("{key}{form}")).or_default();
            row.add(&output);
            let without = programs.run_oracle(&trace.without_setting(place))?;
            row.acts += usize::from(effects(&without).ne(effects(&output)));
        }
        Ok(())
    }

    fn count_lines(&mut self, output: &Output) {
        let mut first = true;
        for line in &output.lines {
            let mut words = line.split(' ');
            let kind = match (words.next().unwrap_or_default(), words.next()) {
                ("stat" | "block", _) => continue,
                ("failed:", _) => {
                    *self.failures.entry(without_numbers(line)).or_default() += 1;
                    continue;
                }
                ("error", _) => {
                    let (name, text) = compare::refused(line).unwrap_or_default();
                    let kind = format!("{name}: {}", without_numbers(text));
                    let (all, firsts) = self.refusals.entry(kind).or_default();
                    *all += 1;
                    *firsts += usize::from(std::mem::take(&mut first));
                    "error".to_owned()
                }
                (word @ ("driver" | "trace" | "own" | "entry"), Some(second)) => format!("{word} {second}"),
                (word, _) => word.to_owned(),
            };
            *self.lines.entry(kind).or_default() += 1;
        }
    }
}

fn without_numbers(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.starts_with("0x") { "ADDRESS" } else { word });
    let text = words.collect::<Vec<_>>().join(" ");
    text.chars().filter(|c| !c.is_ascii_digit()).take(110).collect()
}

/// What the allocator did, without the statistics, of which some show the setting itself.
fn effects(output: &Output) -> impl Iterator<Item = &String> {
    output.lines.iter().filter(|line| !line.starts_with("stat "))
}

impl Row {
    fn add(&mut self, output: &Output) {
        self.traces += 1;
        let mut freed = false;
        for line in &output.lines {
            if line.starts_with("driver segment_free") {
                freed = true;
            } else if !line.starts_with("driver ") {
                let allocated = line.starts_with("alloc ");
                self.allocations += usize::from(allocated);
                self.out_of_memory += usize::from(line.starts_with("oom "));
                self.freed_first += usize::from(allocated && freed);
                freed = false;
            }
        }
        let ends_with_some = |stat: &str, column: usize| {
            let last = output.lines.iter().rfind(|line| line.starts_with(stat));
            usize::from(last.and_then(|line| line.split(' ').nth(column)).is_some_and(|value| value != "0"))
        };
        self.retries += ends_with_some("stat num_alloc_retries", 2);
        self.oversize += ends_with_some("stat oversize_segments", 5);
        self.splits += ends_with_some("stat inactive_split.all", 5);
        self.deferred += usize::from(output.lines.iter().any(|line| line.starts_with("record ")));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = "traces acts alloc oom freed-first retries oversize splits records";
        write!(f, "{:34}", "setting")?;
        head.split(' ').try_for_each(|name| write!(f, " {name:>11}"))?;
        for (setting, row) in &self.rows {
            write!(f, "\n{setting:34}")?;
            let counts = [
                row.traces,
                row.acts,
                row.allocations,
                row.out_of_memory,
                row.freed_first,
                row.retries,
                row.oversize,
                row.splits,
                row.deferred,
            ];
            counts.iter().try_for_each(|count| write!(f, " {count:>11}"))?;
        }
        write!(f, "\n\nlines of {} traces:", self.traces)?;
        self.lines.iter().try_for_each(|(kind, count)| write!(f, "\n{count:>9} {kind}"))?;
        write!(f, "\n\nrefusals, and in how many traces they came first:")?;
        let mut refusals = self.refusals.iter();
        refusals.try_for_each(|(text, (all, first))| write!(f, "\n{all:>9} {first:>6} {text}"))?;
        let failed: usize = self.failures.values().sum();
        write!(f, "\n\ntraces that PyTorch itself failed on: {failed}")?;
        self.failures.iter().try_for_each(|(text, count)| write!(f, "\n{count:>9} {text}"))
    }
}
