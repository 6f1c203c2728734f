//! `cargo xtask cuda package`: a folder that a machine with a GPU, and with neither cargo nor network, runs by
//! `./run.sh`.
//!
//! It holds the driver's suite, the examples, and `cuda-check`, which runs them, checks and times the allocator, and
//! says what came of all.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::artifacts::Artifacts;
use crate::Result;
use crate::workspace::{cargo, target_dir};

/// The largest that the folder may be.
const MOST_BYTES: u64 = 60 << 20;

/// How it is built: optimized, and stripped.
const PROFILE: &str = "stripped";

/// The programs: folder of the package, and target.
const PROGRAMS: [(&str, &str); 6] = [
    ("benches/cuda_check", "cuda-check"),
    ("examples/cuda-alone", "overlap"),
    ("examples/cuda-alone", "graph"),
    ("examples/cuda-alone", "out_of_memory"),
    ("examples/cuda-alone", "snapshot_at_oom"),
    ("examples/cuda-alone", "cudarc_interop"),
];

const RUN: &str = "#!/bin/sh
# Checks and times the CUDA driver, and the allocator on it. 0: all is well. 1: something is not. 2: no CUDA driver.
# --short does little of everything; --results FOLDER says where results.json and oom.pickle go.
cd \"$(dirname \"$0\")\" || exit 1
exec ./bin/cuda-check all \"$@\"
";

/// Where it goes.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The folder; `target/cuda-package` unless given
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Builds it.
///
/// # Errors
/// Something does not build, or the folder cannot be written or has become too large; this is not Linux.
pub(crate) fn build(args: &Args) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Err("the package is for Linux, and built there".into());
    }
    let mut build = cargo();
    build.args(["build", "--profile", PROFILE, "--bins", "--test", "it"]);
    build.args(["--package", "c10-cuda", "--package", "cuda-check", "--package", "cuda-alone"]);
    let built = Artifacts::of(&mut build)?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => target_dir()?.join("cuda-package"),
    };
    let bytes = assemble(&built, &folder)?;
    if bytes > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        return Err(format!("{} has {} MiB: more than {most}", folder.display(), bytes >> 20).into());
    }
    println!(
        "{}: {} MiB; run it by ./run.sh on a machine with a GPU",
        folder.display(),
        bytes.div_ceil(1 << 20)
    );
    println!("it needs glibc {} or later", needed_glibc(&folder.join("bin"))?);
    Ok(())
}

/// Puts the programs that were built into a folder, and gives their size.
///
/// # Errors
/// One was not built; the folder cannot be written.
pub(crate) fn assemble(built: &Artifacts, folder: &Path) -> Result<u64> {
    let bin = folder.join("bin");
    if bin.exists() {
        fs::remove_dir_all(&bin)?;
    }
    fs::create_dir_all(&bin)?;
    let mut bytes = fs::copy(built.tests("crates/c10-cuda", "it")?, bin.join("driver-suite"))?;
    for (package, program) in PROGRAMS {
        bytes += fs::copy(built.program(package, program)?, bin.join(program))?;
    }
    let run = folder.join("run.sh");
    fs::write(&run, RUN)?;
    make_executable(&run)?;
    Ok(bytes)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The newest version of glibc that a program of the folder names: symbols stand in it as `GLIBC_2.34`.
fn needed_glibc(bin: &Path) -> Result<String> {
    let mut newest = (0, 0);
    for entry in fs::read_dir(bin)? {
        let program = fs::read(entry?.path())?;
        newest = newest.max(newest_version(&program));
    }
    Ok(format!("{}.{}", newest.0, newest.1))
}

fn newest_version(program: &[u8]) -> (u32, u32) {
    const NAME: &[u8] = b"GLIBC_";
    let places = program.windows(NAME.len()).enumerate().filter(|(_, bytes)| *bytes == NAME);
    let versions = places.filter_map(|(at, _)| {
        let rest = &program[at + NAME.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max().unwrap_or_default()
}

/// The program that runs a package.
pub(crate) fn runner(folder: &Path) -> std::process::Command {
    let mut run = std::process::Command::new(folder.join("run.sh"));
    run.args([OsStr::new("--short"), OsStr::new("--results"), folder.as_os_str()]);
    run
}

#[cfg(test)]
mod tests;
