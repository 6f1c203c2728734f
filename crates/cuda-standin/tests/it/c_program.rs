//! A program in C, built against declarations of its own and linked to the library by CUDA's name for it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::rig::path;

/// Builds the program; `None` without a compiler.
fn build(folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let version =
        Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler `{compiler}` (CC names another)");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("client");
    let output = Command::new(compiler)
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(root.join("tests/client.c"))
        .arg("-I")
        .arg(root.join("include"))
        .arg("-L")
        .arg(folder)
        .arg("-lcuda")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn a_c_program_runs_on_it() {
    let folder = tempfile::tempdir().unwrap();
    symlink(path(), folder.path().join("libcuda.so")).unwrap();
    let Some(program) = build(folder.path()) else { return };
    let output = Command::new(program).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {printed}", output.status);
    let expected = "\
1 device, Simulated device, 12 or later
tripled 3 -1 9 -1
threads 4
forked 0
calls many
at the end 4
";
    assert_eq!(printed, expected);
}
