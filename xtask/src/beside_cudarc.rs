//! Whether c10-cuda, with its feature `cuda`, builds beside other crates that ask cudarc for a CUDA version or a way of
//! loading of theirs: one build has one cudarc, with the features of all.
//!
//! Each case is a package of its own under `target/`, which is checked and not built: no toolkit is needed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::step::must_succeed;
use crate::workspace::{cargo, root, target_dir};

/// What others ask for: the oldest and the newest version, and what candle asks for.
const CASES: [(&str, &str); 3] = [
    ("oldest", r#""driver", "dynamic-loading", "cuda-11040""#),
    ("newest", r#""driver", "dynamic-loading", "cuda-13040""#),
    ("linked", r#""std", "driver", "dynamic-linking", "cuda-version-from-build-system""#),
];

/// Checks each case.
///
/// # Errors
/// One does not build, or its package cannot be written.
pub(crate) fn check() -> Result<()> {
    let folder = target_dir()?.join("beside-cudarc");
    for (name, features) in CASES {
        let package = write(&folder.join(name), name, features)?;
        let mut check = cargo();
        check.arg("check").arg("--quiet").arg("--manifest-path").arg(package);
        // One folder for all: what does not depend on cudarc is built once.
        must_succeed(check.arg("--target-dir").arg(folder.join("target")))?;
    }
    Ok(())
}

/// Writes a package that depends on both; its manifest.
fn write(folder: &Path, name: &str, features: &str) -> Result<PathBuf> {
    let c10_cuda = root().join("crates/c10-cuda");
    let manifest = format!(
        r#"[package]
name = "beside-cudarc-{name}"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
c10-cuda = {{ path = {c10_cuda:?}, features = ["cuda"] }}
cudarc = {{ version = "0.19", default-features = false, features = [{features}] }}
"#
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "//! Nothing but its dependencies.\n")?;
    // The versions of the workspace, and none that has come out since.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let path = folder.join("Cargo.toml");
    fs::write(&path, manifest)?;
    Ok(path)
}
