use super::{Crate, check_workspace, violations};

fn library(name: &str, dependencies: &[&str]) -> Crate {
    Crate {
        name: name.to_owned(),
        in_examples: false,
        dependencies: dependencies.iter().map(|dependency| ((*dependency).to_owned(), false)).collect(),
    }
}

#[test]
fn the_workspace_keeps_to_its_layers() {
    check_workspace().unwrap();
}

#[test]
fn edges_down_are_allowed_and_edges_up_or_sideways_are_not() {
    let crates = [
        library("c10-core", &["half", "aten"]),
        library("c10-cuda", &["c10-core"]),
        library("aten", &["c10-core", "c10-cuda"]),
        library("tensorplay-autograd", &["aten", "c10-core"]),
        library("tensorplay-cli", &["c10-cuda", "clap"]),
    ];
    assert_eq!(violations(&crates), ["c10-core must not depend on aten", "aten must not depend on c10-cuda"]);
}

#[test]
fn libraries_take_no_tools() {
    let crates = [library("c10-core", &["clap", "half"]), library("c10-cuda", &["indicatif"])];
    assert_eq!(
        violations(&crates),
        ["c10-core must not depend on clap", "c10-cuda must not depend on indicatif"]
    );
}

#[test]
fn only_tests_of_libraries_use_leaves() {
    let mut cuda = library("c10-cuda", &["cuda-standin"]);
    let standin = || library("cuda-standin", &[]);
    assert_eq!(
        violations(&[library("c10-cuda", &["cuda-standin"]), standin()]),
        ["c10-cuda must not depend on cuda-standin"]
    );
    cuda.dependencies[0].1 = true;
    assert_eq!(violations(&[cuda, standin()]), [""; 0]);
}

#[test]
fn a_new_crate_needs_a_place_in_the_table() {
    assert_eq!(
        violations(&[library("aten-npu", &["aten"])]),
        ["aten-npu has no place in the table of layers (xtask/src/layers.rs)"]
    );
    let example = Crate { in_examples: true, ..library("first-tensor", &["c10-core"]) };
    assert_eq!(violations(&[example]), [""; 0]);
}
