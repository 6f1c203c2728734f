//! The command: every case of a file, called, judged and counted.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::OpArgs;
use super::case::Case;
use super::judge::judge;
use super::list::list;
use super::read::Lines;
use super::report::OpReport;
use super::run::call;
use crate::output;
use crate::progress::Progress;

/// Runs the command.
pub(crate) fn run_op(args: &OpArgs) -> ExitCode {
    let Some(cases) = &args.cases else { return output::print(&list(args.json)) };
    // The operators and their derivatives, through which all calls go, are registered now, so that a panic there
    // is seen; one of an operator is reported with its case.
    if let Err(error) = tensorplay_autograd::init() {
        return output::bad_input(&error.to_string());
    }
    panic::set_hook(Box::new(|_| {}));
    let report = run_cases(cases, args);
    drop(panic::take_hook());
    let report = match report {
        Ok(report) => report,
        Err(reason) => return output::bad_input(&reason),
    };
    let text = if args.json { report.to_json() } else { report.to_text(args.show, args.per_op) };
    let printed = output::print(&text);
    if report.is_whole() { printed } else { ExitCode::FAILURE }
}

/// Calls each case that the arguments choose.
fn run_cases(cases: &Path, args: &OpArgs) -> Result<OpReport, String> {
    let whole = |error: io::Error| format!("{}: {error}", cases.display());
    let mut lines = Lines::open(cases).map_err(whole)?;
    let mut results = args.results.as_deref().map(|path| ResultsFile::create(path, cases)).transpose()?;
    let mut report = OpReport::default();
    let progress = Progress::endless("Calling operators");
    let place = |(line, reason)| format!("{}: line {line}: {reason}", cases.display());
    while let Some((line, text)) = lines.next_line().map_err(place)? {
        let case = Case::from_line(text).map_err(|reason| place((line, reason)))?;
        progress.step();
        if case.is_of_no_overload() || !is_chosen(args, &case) {
            continue;
        }
        let outcome = call(&case);
        if let Some(results) = &mut results {
            results.write(&outcome.to_line(line))?;
        }
        report.add(line, &case.op, judge(&case, &outcome));
    }
    results.map(ResultsFile::finish).transpose()?;
    report.finish();
    // What compares nothing proves nothing.
    if report.operators == 0 { Err(format!("{}: no case is chosen", cases.display())) } else { Ok(report) }
}

fn is_chosen(args: &OpArgs, case: &Case) -> bool {
    (case.is_core || !args.core) && args.op.as_ref().is_none_or(|part| case.op.contains(part.as_str()))
}

/// The file that `--results` names.
struct ResultsFile {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl ResultsFile {
    /// Creates the file, which is not the one that is read.
    fn create(path: &Path, cases: &Path) -> Result<Self, String> {
        let is_same =
            path.canonicalize().is_ok_and(|path| cases.canonicalize().is_ok_and(|cases| path == cases));
        if is_same {
            return Err(format!("{}: the results would overwrite the cases", path.display()));
        }
        match File::create(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), writer: BufWriter::new(file) }),
            Err(error) => Err(unwritten(path, &error)),
        }
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        self.writer.write_all(line.as_bytes()).map_err(|error| unwritten(&self.path, &error))
    }

    fn finish(mut self) -> Result<(), String> {
        self.writer.flush().map_err(|error| unwritten(&self.path, &error))
    }
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}
