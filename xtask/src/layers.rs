//! The layer check: which crate of the workspace may depend on which.

use std::collections::BTreeSet;

use cargo_metadata::DependencyKind;

use crate::Result;
use crate::workspace::packages;

/// Each library crate and what stands directly below it. A crate may depend on everything that is below it,
/// directly or not, and on no other crate of the workspace.
const BELOW: &[(&str, &[&str])] = &[
    ("c10-core", &[]),
    ("c10-cuda", &["c10-core"]),
    ("aten", &["c10-core"]),
    ("tensorplay-autograd", &["aten"]),
    ("aten-cuda", &["aten", "c10-cuda"]),
    ("tensorplay", &["aten-cuda", "tensorplay-autograd"]),
];

/// Crates at the ends: they may depend on anything, and nothing but tests depends on them.
const LEAVES: &[&str] = &[
    "tensorplay-cli",
    "tensorplay-benches",
    "alloc-pairs",
    "cuda-check",
    "graph-nodes",
    "op-calls",
    "xtask",
    "cuda-standin",
    "c10-cuda-capi",
];

/// What only tools may depend on.
const TOOLS_ONLY: &[&str] = &["clap", "indicatif", "plotters", "serde-pickle"];

/// A package, cut down to what the check reads.
#[derive(Debug)]
struct Crate {
    name: String,
    in_examples: bool,
    /// Names of dependencies, and whether they serve tests only.
    dependencies: Vec<(String, bool)>,
}

/// Checks the workspace as it is.
///
/// # Errors
/// Some dependency breaks the rules, and the text lists each; or cargo's metadata cannot be read.
pub(crate) fn check_workspace() -> Result<()> {
    let crates: Vec<Crate> = packages()?
        .into_iter()
        .map(|package| Crate {
            name: package.name.to_string(),
            in_examples: package.manifest_path.components().any(|part| part.as_str() == "examples"),
            dependencies: package
                .dependencies
                .iter()
                .map(|dependency| (dependency.name.clone(), dependency.kind == DependencyKind::Development))
                .collect(),
        })
        .collect();
    let wrong = violations(&crates);
    if wrong.is_empty() {
        println!("{} crates keep to their layers", crates.len());
        return Ok(());
    }
    Err(format!("the layers are broken:\n  {}", wrong.join("\n  ")).into())
}

/// What breaks the rules, one sentence each.
fn violations(crates: &[Crate]) -> Vec<String> {
    let members: BTreeSet<&str> = crates.iter().map(|member| member.name.as_str()).collect();
    let mut wrong = Vec::new();
    for member in crates {
        let name = member.name.as_str();
        if LEAVES.contains(&name) || member.in_examples {
            continue;
        }
        if !BELOW.iter().any(|(library, _)| *library == name) {
            wrong.push(format!("{name} has no place in the table of layers (xtask/src/layers.rs)"));
            continue;
        }
        let below = all_below(name);
        for (dependency, for_tests) in &member.dependencies {
            let dependency = dependency.as_str();
            let allowed = if members.contains(dependency) {
                below.contains(dependency) || (*for_tests && LEAVES.contains(&dependency))
            } else {
                *for_tests || !TOOLS_ONLY.contains(&dependency)
            };
            if !allowed {
                wrong.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    wrong
}

/// Everything below a library crate, directly or not.
fn all_below(name: &str) -> BTreeSet<&'static str> {
    let directly = BELOW.iter().find(|(library, _)| *library == name).map_or(&[][..], |(_, below)| below);
    directly.iter().flat_map(|below| all_below(below).into_iter().chain([*below])).collect()
}

#[cfg(test)]
mod tests;
