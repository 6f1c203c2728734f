//! Writes the Rust face of the operators from their tables: see `build/mod.rs`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "build/mod.rs"]
mod codegen;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/ops");
    match write_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            for line in text.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn write_all() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut tables = Vec::new();
    for path in tables_in(Path::new("src/ops"))? {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        tables.push((path.display().to_string(), text));
    }
    let codegen::Generated { handles, methods, schemas, list } = codegen::generate(&tables)?;
    let files =
        [("handles.rs", handles), ("methods.rs", methods), ("schemas.rs", schemas), ("schemas.txt", list)];
    for (name, text) in files {
        std::fs::write(out.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    // Build scripts of crates that depend on this one find it in `DEP_ATEN_SCHEMAS`.
    println!("cargo::metadata=schemas={}", out.join("schemas.txt").display());
    Ok(())
}

/// The tables in name order, so that what is written does not depend on the file system.
fn tables_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "ops") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
