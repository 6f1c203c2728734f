//! Every part, each a process of its own with a limit of time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use crate::report::{Outcome, Report};

/// What is run.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Little of everything, to see that it runs
    #[arg(long)]
    short: bool,
    /// Where results.json goes
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
const EXAMPLES: [&str; 5] = ["overlap", "graph", "out_of_memory", "snapshot_at_oom", "cudarc_interop"];

/// Runs all parts, one after the other; none stops the rest. Gives 0 when all are well, and 2 when there is nothing to
/// run them on.
pub(crate) fn run(args: &Args) -> ExitCode {
    let Some(folder) = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)) else {
        eprintln!("error: this program does not know where it is");
        return ExitCode::from(2);
    };
    let mut report = Report::default();
    let facts = part("facts", &folder.join("cuda-check"), &["facts"], 60);
    report.add(run_part(&facts));
    report.print_last();
    if !report.good() {
        return ExitCode::from(2);
    }
    for part in parts(&folder, args.short) {
        println!("… {}", part.name);
        report.add(run_part(&part));
        report.print_last();
    }
    report.print();
    let written = report.write(&args.results.join("results.json"));
    if let Err(error) = &written {
        eprintln!("error: results.json: {error}");
    }
    if report.good() && written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn part(name: &'static str, program: &Path, arguments: &[&str], seconds: u64) -> Part {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Part { name, program: program.to_owned(), arguments, limit: Duration::from_secs(seconds) }
}

fn parts(folder: &Path, short: bool) -> Vec<Part> {
    let check = folder.join("cuda-check");
    let mut parts =
        vec![part("driver suite", &folder.join("driver-suite"), &["real::", "--test-threads=1"], 90)];
    parts.extend(EXAMPLES.map(|name| part(name, &folder.join(name), &[], 30)));
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

/// Runs a part in the limit of its time, and takes what it prints.
fn run_part(part: &Part) -> Outcome {
    let begun = Instant::now();
    let mut command = Command::new(&part.program);
    command.args(&part.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = match command.spawn() {
        Ok(child) => output_within(child, part.limit),
        Err(error) => {
            (String::new(), format!("{}: {error}", part.program.display()), Some("did not start".to_owned()))
        }
    };
    let (printed, errors, failure) = ended;
    Outcome::new(part.name, begun.elapsed(), &printed, &errors, failure)
}

/// What a process prints, and why it is not well, if it is not.
fn output_within(mut child: Child, limit: Duration) -> (String, String, Option<String>) {
    let printed = child.stdout.take().map(|pipe| thread::spawn(move || read(pipe)));
    let errors = child.stderr.take().map(|pipe| thread::spawn(move || read(pipe)));
    let until = Instant::now() + limit;
    let failure = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break None,
            Ok(Some(status)) => break Some(status.to_string()),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                // One that has just ended cannot be killed.
                let _ = child.kill();
                let _ = child.wait();
                break Some(format!("took longer than {} s", limit.as_secs()));
            }
            Err(error) => break Some(error.to_string()),
        }
    };
    let text =
        |thread: Option<thread::JoinHandle<String>>| thread.and_then(|t| t.join().ok()).unwrap_or_default();
    (text(printed), text(errors), failure)
}

fn read(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What has come until an error is what there is.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
