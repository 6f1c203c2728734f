//! Which modules of the library crates may hold unsafe code: those that `unsafe_modules.txt` names, and no others.
//!
//! Unsafe code is denied in the workspace, and a module that needs it says so at its head. The list makes a new one
//! a line that somebody reads.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::workspace::root;

/// Checks the workspace as it is.
///
/// # Errors
/// A module holds unsafe code and is not listed, or is listed and holds none; or a file cannot be read.
pub(crate) fn check() -> Result<()> {
    let listed = fs::read_to_string(root().join("xtask/unsafe_modules.txt"))?;
    let listed: BTreeSet<String> =
        listed.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let found = found()?;
    let lines = |of: &BTreeSet<String>, not: &BTreeSet<String>, sign: char| -> String {
        of.difference(not).map(|module| format!("\n{sign} {module}")).collect()
    };
    let differences = lines(&found, &listed, '+') + &lines(&listed, &found, '-');
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("modules with unsafe code and xtask/unsafe_modules.txt differ:{differences}").into())
}

/// The source files of library crates that lift the ban, but for tests.
fn found() -> Result<BTreeSet<String>> {
    let mut modules = BTreeSet::new();
    for package in fs::read_dir(root().join("crates"))? {
        for file in sources(&package?.path().join("src"))? {
            let is_test =
                file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
            if is_test || !lifts_the_ban(&fs::read_to_string(&file)?) {
                continue;
            }
            let inside = file.strip_prefix(root()).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            modules.insert(inside);
        }
    }
    Ok(modules)
}

/// Whether a file has an attribute that allows or expects unsafe code.
fn lifts_the_ban(text: &str) -> bool {
    ["expect(", "allow("].iter().any(|lint| {
        text.match_indices(lint).any(|(at, _)| {
            let inside = text[at + lint.len()..].split(')').next().unwrap_or_default();
            inside.split([',', '=']).any(|name| name.trim() == "unsafe_code")
        })
    })
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{check, lifts_the_ban};

    #[test]
    fn modules_with_unsafe_code_are_listed() {
        check().unwrap();
    }

    #[test]
    fn attributes_in_every_shape_are_seen() {
        assert!(lifts_the_ban("#![expect(unsafe_code, reason = \"x\")]"));
        assert!(lifts_the_ban("#![expect(\n    unsafe_code,\n    reason = \"x\"\n)]"));
        assert!(lifts_the_ban("#[allow(dead_code, unsafe_code)]"));
        assert!(!lifts_the_ban("// unsafe_code is denied (see allow) and #[expect(dead_code)]"));
    }
}
