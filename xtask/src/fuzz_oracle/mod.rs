//! `cargo xtask fuzz-oracle`: our caching allocator against PyTorch's own, on random traces.
//!
//! A trace is a configuration, a device's memory and commands; it follows from its seed alone. Both allocators
//! run it over a stand-in for the driver, and have to print the same lines: every driver call, the place of each
//! block, out-of-memory texts, statistics. A trace on which they differ is shrunk before it is shown.

mod compare;
mod conf;
mod coverage;
mod family;
mod generate;
pub(crate) mod oracle;
mod random;
mod run;
mod shrink;
mod sizes;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::workspace::{cargo, target_dir};
use crate::{Result, step};

use clap::ValueEnum;
use compare::Verdict;
use coverage::Coverage;
use family::Family;
use generate::Fixed;
use oracle::Found;
use run::{Output, Programs};
use trace::Trace;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many traces
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    traces: u64,
    /// The first trace's seed; each next trace has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the traces are about; all families in turn unless given
    #[arg(long, value_name = "NAME")]
    family: Vec<Family>,
    /// Commands in each trace, where the seed would choose
    #[arg(long)]
    ops: Option<usize>,
    /// The configuration of every trace, as in PYTORCH_ALLOC_CONF, where the seed would choose
    #[arg(long)]
    conf: Option<String>,
    /// The device's memory in bytes, where the seed would choose
    #[arg(long)]
    device_memory: Option<u64>,
    /// How many differences are made small and shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    shrink: usize,
    /// Our `tensorplay` program; built in release mode unless given
    #[arg(long, value_name = "FILE")]
    ours: Option<PathBuf>,
    /// Writes each trace and PyTorch's answer to this folder, and compares nothing
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Prints which of PyTorch's paths the traces reach, and compares nothing
    #[arg(long, conflicts_with = "write")]
    coverage: bool,
}

/// Runs the traces.
///
/// # Errors
/// A program could not be built or started, or a file not written. A difference shows in the exit code.
pub(crate) fn run(args: &Args) -> Result {
    let oracle = match oracle::find("torch_replay")? {
        Found::At(program) => program,
        Found::Missing(why) => {
            println!("skipped: {why}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let target = target_dir()?;
    let scratch = target.join("fuzz-oracle");
    std::fs::create_dir_all(&scratch)?;
    let built = target.join("release").join(format!("tensorplay{}", std::env::consts::EXE_SUFFIX));
    let ours = args.ours.clone().unwrap_or(built);
    let scratch = scratch.join(format!("{}.trace", std::process::id()));
    let mut programs = Programs::new(oracle, ours, scratch);
    programs.with_entries = !args.coverage && args.write.is_none();
    let done = if args.coverage {
        measure_coverage(args, &programs)
    } else if let Some(folder) = &args.write {
        write(args, &programs, folder)
    } else {
        compare(args, &programs)
    };
    std::fs::remove_file(&programs.scratch)?;
    done
}

/// The traces that the arguments name, with their seeds. Says now and then how far it is.
fn traces(args: &Args) -> impl Iterator<Item = (u64, Trace)> {
    let fixed = Fixed { ops: args.ops, conf: args.conf.clone(), device_memory: args.device_memory };
    let (first, count) = (args.seed, args.traces);
    let families = if args.family.is_empty() { Family::value_variants() } else { &args.family };
    let begun = Instant::now();
    let mut said = begun;
    (0..count).map(move |done| {
        if said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            println!("{done} of {count}, {:.0} a second", done as f64 / begun.elapsed().as_secs_f64());
        }
        let seed = first.wrapping_add(done);
        let family = families[(seed % families.len() as u64) as usize];
        (seed, generate::trace(family, seed, &fixed))
    })
}

fn compare(args: &Args, programs: &Programs) -> Result {
    if args.ours.is_none() {
        step::must_succeed(cargo().args(["build", "--release", "--package", "tensorplay-cli"]))?;
    }
    let (mut agree, mut in_part, mut differ) = (0, 0, 0);
    let (mut lines, mut lines_in_part) = (0, 0);
    for (seed, trace) in traces(args) {
        let oracle = programs.run_oracle(&trace)?;
        let ours = programs.run_ours(&trace)?;
        match compare::compare(&oracle, &ours) {
            Verdict::Agree => {
                agree += 1;
                lines += oracle.lines.len();
            }
            Verdict::AgreeUpTo(line) => {
                in_part += 1;
                lines_in_part += line;
            }
            Verdict::Differ(line) => {
                differ += 1;
                let [theirs, ours] = [&oracle, &ours].map(|output| compare::line(output, line));
                println!("seed {seed}: line {line} is PyTorch's `{theirs}`, and ours `{ours}`");
                if differ <= args.shrink {
                    show(&smallest(trace, programs)?, programs)?;
                }
            }
        }
    }
    println!(
        "\n{agree} traces agree in {lines} lines, {in_part} in {lines_in_part} lines up to a defect of PyTorch's, \
         {differ} differ"
    );
    // Where PyTorch failed on all of them nothing was compared.
    Ok(if differ == 0 && agree > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn smallest(trace: Trace, programs: &Programs) -> Result<Trace> {
    shrink::shrink(trace, |candidate| {
        let oracle = programs.run_oracle(candidate)?;
        Ok(matches!(compare::compare(&oracle, &programs.run_ours(candidate)?), Verdict::Differ(_)))
    })
}

/// Prints a trace that shows a difference, and both outputs about the first line that differs.
fn show(trace: &Trace, programs: &Programs) -> Result<()> {
    let (oracle, ours) = (programs.run_oracle(trace)?, programs.run_ours(trace)?);
    let Verdict::Differ(at) = compare::compare(&oracle, &ours) else {
        println!("the difference does not come again");
        return Ok(());
    };
    println!("{trace}--- the same before");
    oracle.lines[at.saturating_sub(4)..at].iter().for_each(|line| println!("  {line}"));
    for (whose, output) in [("PyTorch", &oracle), ("ours", &ours)] {
        println!("--- {whose}");
        output.lines.iter().skip(at).take(6).for_each(|line| println!("  {line}"));
    }
    Ok(())
}

fn measure_coverage(args: &Args, programs: &Programs) -> Result {
    let mut coverage = Coverage::default();
    for (_, trace) in traces(args) {
        coverage.add(&trace, programs)?;
    }
    println!("{coverage}");
    Ok(ExitCode::SUCCESS)
}

/// Writes `seed-N.trace`, whose head names its configuration and memory, and `seed-N.expected`.
fn write(args: &Args, programs: &Programs, folder: &Path) -> Result {
    std::fs::create_dir_all(folder)?;
    let mut written = 0;
    for (seed, trace) in traces(args) {
        let Output { lines, failed } = programs.run_oracle(&trace)?;
        std::fs::write(folder.join(format!("seed-{seed}.trace")), trace.to_string())?;
        if failed {
            println!("seed {seed}: PyTorch itself failed: {}", lines.last().map_or("", String::as_str));
            continue;
        }
        std::fs::write(folder.join(format!("seed-{seed}.expected")), lines.join("\n") + "\n")?;
        written += 1;
    }
    println!("{written} traces written to {}", folder.display());
    Ok(ExitCode::SUCCESS)
}
