//! `cargo xtask fuzz`: the fuzz targets under `crates/*/fuzz`, for a while each.
//!
//! It builds them as `cargo fuzz` does, with AddressSanitizer and coverage, and needs only a nightly toolchain: where
//! there is none it says `skipped: no nightly`. Inputs that cover something new are kept in the crate's
//! `fuzz/corpus`, and one that fails in `fuzz/artifacts`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::nightly::Nightly;
use crate::workspace::root;
use crate::{Result, step};

/// What `cargo fuzz` gives rustc.
const FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Which targets, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The targets to run, as `CRATE/NAME`, `CRATE` or `NAME`; all without any
    targets: Vec<String>,
    /// Seconds a target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// A fuzz target.
#[derive(Debug)]
struct Target {
    package: String,
    name: String,
    folder: PathBuf,
}

impl Target {
    fn is_meant(&self, args: &Args) -> bool {
        let Self { package, name, .. } = self;
        let is_it =
            |wanted: &String| wanted == package || wanted == name || *wanted == format!("{package}/{name}");
        args.targets.is_empty() || args.targets.iter().any(is_it)
    }
}

/// Runs the targets; the first that fails ends it.
///
/// # Errors
/// There is no such target; a target could not be built or started. One that fails shows in the exit code.
pub(crate) fn run(args: &Args) -> Result {
    let targets: Vec<_> = targets()?.into_iter().filter(|target| target.is_meant(args)).collect();
    if targets.is_empty() {
        return Err(format!("there is no fuzz target {}", args.targets.join(" or ")).into());
    }
    let nightly = match Nightly::find() {
        Ok(nightly) => nightly,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    for target in &targets {
        if !fuzz(&nightly, target, args.seconds)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("{} targets, {} s each: nothing found", targets.len(), args.seconds);
    Ok(ExitCode::SUCCESS)
}

/// Runs a target; whether nothing was found.
fn fuzz(nightly: &Nightly, target: &Target, seconds: u64) -> Result<bool> {
    let Target { package, name, folder } = target;
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    println!("\n=== {package}/{name}");
    let mut run = nightly.cargo("run", FLAGS, "fuzz")?;
    run.args(["--release", "--bin", name, "--manifest-path"]).arg(folder.join("Cargo.toml"));
    run.args(["--", &format!("-max_total_time={seconds}"), "-rss_limit_mb=4096", "-print_final_stats=1"]);
    run.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(corpus);
    Ok(step::run(&mut run)?.success())
}

/// All targets, by crate and name.
fn targets() -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for package in names_in(&root().join("crates"))? {
        let folder = root().join("crates").join(&package).join("fuzz");
        let sources = folder.join("fuzz_targets");
        if sources.is_dir() {
            for file in names_in(&sources)? {
                let Some(name) = file.strip_suffix(".rs") else { continue };
                targets.push(Target {
                    package: package.clone(),
                    name: name.to_owned(),
                    folder: folder.clone(),
                });
            }
        }
    }
    Ok(targets)
}

/// What lies in a folder, sorted.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
