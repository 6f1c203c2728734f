//! Makes of the tables of derivatives (`src/formulas/*.grads`) the formulas and their registration: see
//! `build/mod.rs`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "build/mod.rs"]
mod codegen;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/formulas");
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            text.lines().for_each(|line| println!("cargo::error={line}"));
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
    let out = variable("OUT_DIR")?;
    let schemas = variable("DEP_ATEN_SCHEMAS")?;
    println!("cargo::rerun-if-changed={}", schemas.display());
    let schemas = read(&schemas)?;
    let mut tables = Vec::new();
    for path in tables_in(Path::new("src/formulas"))? {
        let text = read(&path)?;
        tables.push((path.display().to_string(), text));
    }
    let code = codegen::generate(&schemas, &tables)?;
    std::fs::write(out.join("formulas.rs"), code).map_err(|error| format!("formulas.rs: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The tables in name order, so that what is written does not depend on the file system.
fn tables_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "grads") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
