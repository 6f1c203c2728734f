//! `tensorplay info`, help and arguments.

use super::*;

#[test]
fn info_says_what_was_looked_for() {
    let output = run(&["info"]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.starts_with(&format!("tensorplay {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("simulated CUDA devices"), "{text}");
    assert!(text.contains("looked for in"), "{text}");
}

#[test]
fn info_finds_a_driver_library_where_the_loader_would() {
    if cfg!(windows) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    std::fs::write(&library, "").unwrap();
    let output = tensorplay().arg("info").env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    assert!(stdout(&output).contains(&format!("libcuda.so.1: {}", library.display())), "{output:?}");
}

#[test]
fn wrong_arguments_end_with_2_and_help_with_0() {
    for args in [&["fly"][..], &["replay"], &["replay", "a", "b"], &["replay", "--format", "xml", "a"], &[]] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["replay", "--help"]] {
        let output = run(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
    }
}
