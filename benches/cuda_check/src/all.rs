//! Every part, each a process of its own with a limit of time.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use crate::process::{Ended, output_within};
use crate::report::{Outcome, Report};

/// What is run.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Little of everything, to see that it runs
    #[arg(long)]
    short: bool,
    /// Where results.json and oom.pickle, the snapshot of an example, go
    #[arg(long, default_value = ".")]
    results: PathBuf,
}

/// One part.
struct Part {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    limit: Duration,
}

/// The examples of the package, which say at their end that all is right.
const EXAMPLES: [&str; 3] = ["overlap", "graph", "out_of_memory"];

/// The most time that all parts take together.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// How `facts` ends where there is no driver.
pub(crate) const NO_DRIVER: u8 = 2;

/// Runs all parts, one after the other; none stops the rest, and what has come is written after each. Gives 0 when all
/// are well, 2 when there is no driver to run them on, and else 1.
pub(crate) fn run(args: &Args) -> ExitCode {
    let until = Instant::now() + LIMIT;
    let Some(folder) = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)) else {
        eprintln!("error: this program does not know where it is");
        return ExitCode::FAILURE;
    };
    if let Err(error) = std::fs::create_dir_all(&args.results) {
        eprintln!("error: {}: {error}", args.results.display());
        return ExitCode::FAILURE;
    }
    let mut report = Report::default();
    let facts = run_part(&part("facts", &folder.join("cuda-check"), &["facts"], 60), until);
    let no_driver = facts.code == Some(i32::from(NO_DRIVER));
    let mut written = record(&mut report, facts.outcome, &args.results);
    if no_driver {
        return ExitCode::from(NO_DRIVER);
    }
    for part in parts(&folder, args) {
        println!("… {}", part.name);
        written &= record(&mut report, run_part(&part, until).outcome, &args.results);
    }
    report.print();
    if report.good() && written { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what came of a part, and writes all there is so far. Whether that could be written.
fn record(report: &mut Report, outcome: Outcome, results: &Path) -> bool {
    report.add(outcome);
    report.print_last();
    let written = report.write(&results.join("results.json"));
    if let Err(error) = &written {
        eprintln!("error: results.json: {error}");
    }
    written.is_ok()
}

fn part(name: &'static str, program: &Path, arguments: &[&str], seconds: u64) -> Part {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Part { name, program: program.to_owned(), arguments, limit: Duration::from_secs(seconds) }
}

fn parts(folder: &Path, args: &Args) -> Vec<Part> {
    let short = args.short;
    let check = folder.join("cuda-check");
    let mut parts =
        vec![part("driver suite", &folder.join("driver-suite"), &["real::", "--test-threads=1"], 90)];
    parts.extend(EXAMPLES.map(|name| part(name, &folder.join(name), &[], 30)));
    let snapshot = args.results.join("oom.pickle").to_string_lossy().into_owned();
    parts.push(part("snapshot_at_oom", &folder.join("snapshot_at_oom"), &[&snapshot], 30));
    parts.push(part("cudarc_interop", &folder.join("cudarc_interop"), &[], 30));
    let (seconds, mib) = if short { ("--seconds=1", "--mib=16") } else { ("--seconds=12", "--mib=512") };
    for (name, settings) in [
        ("stress", "--settings="),
        ("stress, expandable", "--settings=expandable_segments:True"),
        ("stress, cudaMallocAsync", "--settings=backend:cudaMallocAsync"),
    ] {
        parts.push(part(name, &check, &["stress", settings, seconds, mib], 60));
    }
    let graphs: &[&str] = if short { &["graphs", "--launches=2", "--count=4096"] } else { &["graphs"] };
    parts.push(part("graphs", &check, graphs, 30));
    parts.push(part("two processes", &check, &["ipc"], 30));
    let timings: &[&str] = if short { &["timings", "--short"] } else { &["timings"] };
    parts.push(part("timings", &check, timings, 60));
    parts
}

/// What came of a part, and the number with which it ended, if it did.
struct Run {
    outcome: Outcome,
    code: Option<i32>,
}

/// Runs a part in the limit of its time, or what is left of all time, and takes what it prints.
fn run_part(part: &Part, until: Instant) -> Run {
    let begun = Instant::now();
    let limit = part.limit.min(until.saturating_duration_since(begun));
    let mut command = Command::new(&part.program);
    command.args(&part.arguments);
    let ended = if limit.is_zero() {
        Ended { failure: Some("no time was left".to_owned()), ..Ended::default() }
    } else {
        output_within(&mut command, limit)
    };
    let Ended { printed, errors, failure, code } = ended;
    Run { outcome: Outcome::new(part.name, begun.elapsed(), &printed, &errors, failure), code }
}
