//! The stand-in of the CUDA driver, in a folder where programs find it as `libcuda`; and the tests that run on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::artifacts::Artifacts;
use super::package;
use crate::Result;
use crate::workspace::{cargo, root, target_dir};

/// The stand-in's package.
const PACKAGE: &str = "crates/cuda-standin";

/// By these names programs ask for the driver.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// The tests that a driver makes run: folder of the package, target, and what the names of its tests hold.
const TESTS: &[(&str, &str, &str)] = &[
    ("crates/c10-cuda", "it", "real::"),
    ("crates/c10-cuda-capi", "it", ""),
    ("examples/cuda-alone", "it", ""),
    ("benches/cuda_check", "it", ""),
];

/// Builds it, and gives the folder to be named in `LD_LIBRARY_PATH`.
///
/// # Errors
/// It does not build, or cannot be copied; this is not Linux.
pub(crate) fn build() -> Result<PathBuf> {
    if !cfg!(target_os = "linux") {
        return Err("the stand-in is a shared object of Linux".into());
    }
    let built = Artifacts::of(cargo().args(["build", "--package", "cuda-standin"]))?;
    place(&built.shared_object(PACKAGE)?)
}

/// What there is to run on the stand-in.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Programs of tests.
    pub(crate) tests: Vec<Command>,
    /// The package for machines with a GPU, which does little of everything here.
    pub(crate) package: Command,
}

/// What of the workspace runs on a driver, on the stand-in. All of it has been built by `cargo test --workspace`, and
/// is taken from there, so that nothing is built with a second set of features.
///
/// # Errors
/// Something does not build, or cannot be copied.
pub(crate) fn runs() -> Result<Runs> {
    let built = Artifacts::of(cargo().args(["test", "--workspace", "--no-run"]))?;
    let folder = place(&built.shared_object(PACKAGE)?)?;
    let of = |(package, target, filter): &(&str, &str, &str)| {
        let mut tests = Command::new(built.tests(package, target)?);
        let at = root().join(package);
        tests.arg(filter).current_dir(&at).env("CARGO_MANIFEST_DIR", at);
        on(&folder, &mut tests);
        Ok(tests)
    };
    let tests = TESTS.iter().map(of).collect::<Result<_>>()?;
    let packed = target_dir()?.join("cuda-package-here");
    package::assemble(&built, &packed)?;
    let mut package = package::runner(&packed);
    on(&folder, &mut package);
    Ok(Runs { tests, package })
}

/// Makes a program find the stand-in before any other driver, and tests fail where there is none; and what the program
/// has not given back when it ends, or calls after that, fails it, and whatever it starts.
fn on(folder: &Path, program: &mut Command) {
    let mut path = OsString::from(folder);
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH").filter(|more| !more.is_empty()) {
        path.push(":");
        path.push(more);
    }
    program
        .env("LD_LIBRARY_PATH", path)
        .env("TENSORPLAY_EXPECT_CUDA", "1")
        .env("CUDA_STANDIN_EXIT", "strict");
}

/// Copies the shared object to where programs find it.
fn place(library: &Path) -> Result<PathBuf> {
    let folder = target_dir()?.join("cuda-standin");
    std::fs::create_dir_all(&folder)?;
    for name in NAMES {
        let there = folder.join(name);
        // A program that runs keeps the file that it has loaded.
        if there.exists() {
            std::fs::remove_file(&there)?;
        }
        std::fs::copy(library, there)?;
    }
    Ok(folder)
}
