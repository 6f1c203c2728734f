//! Where things are: the workspace's root, its packages, and the cargo that runs us.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{MetadataCommand, Package};

use crate::Result;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// A call of the cargo that runs us, in the root, without what `cargo run` told us about our own package:
/// build scripts would see it and run again.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if name.to_str().is_some_and(|name| ours.iter().any(|prefix| name.starts_with(prefix))) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The folder that cargo builds into.
pub(crate) fn target_dir() -> Result<PathBuf> {
    Ok(metadata()?.target_directory.into_std_path_buf())
}

/// The packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    Ok(metadata()?.packages)
}

/// The packages of the workspace that hold a library and stand under `crates/`, by name.
pub(crate) fn libraries() -> Result<Vec<Package>> {
    let crates = root().join("crates");
    let is_library = |package: &Package| {
        package.manifest_path.as_std_path().starts_with(&crates)
            && package.targets.iter().any(|target| target.is_lib())
    };
    let mut libraries: Vec<_> = packages()?.into_iter().filter(is_library).collect();
    libraries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(libraries)
}

fn metadata() -> Result<cargo_metadata::Metadata> {
    Ok(MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec()?)
}
