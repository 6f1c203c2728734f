//! Which paths of the allocator the random traces reach, by setting.

use std::collections::BTreeMap;
use std::fmt;

use super::run::{Output, Programs};
use super::trace::Trace;
use crate::Result;

/// Counts over traces, a row for each setting's name.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    rows: BTreeMap<String, Row>,
    /// Traces that PyTorch itself did not survive.
    failed: usize,
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
        if output.failed {
            self.failed += 1;
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
        write!(f, "\ntraces that PyTorch itself failed on: {}", self.failed)
    }
}
