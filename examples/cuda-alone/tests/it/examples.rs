//! Each example comes to a right end, on every driver.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A variable that says that there is a driver: where none is found, the tests fail instead of being skipped.
const EXPECTED: &str = "TENSORPLAY_EXPECT_CUDA";

/// What an example prints; `None`, and a word on why, where it wants a driver and there is none.
fn output(example: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(example).args(arguments).output().unwrap();
    let (printed, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{example}: {errors}\n{printed}");
    if printed.starts_with("skipped: no CUDA driver\n") && !arguments.contains(&"--sim") {
        assert!(std::env::var_os(EXPECTED).is_none(), "{EXPECTED} is set, but: {printed}");
        // Past libtest, which keeps what tests print.
        let _ = writeln!(std::io::stderr(), "skipped: no CUDA driver");
        return None;
    }
    Some(printed)
}

fn ends_with(example: &str, arguments: &[&str], end: &str) -> Option<String> {
    let printed = output(example, arguments)?;
    assert_eq!(printed.lines().last(), Some(end), "{printed}");
    Some(printed)
}

const OVERLAP: &str = env!("CARGO_BIN_EXE_overlap");
const GRAPH: &str = env!("CARGO_BIN_EXE_graph");
const OUT_OF_MEMORY: &str = env!("CARGO_BIN_EXE_out_of_memory");
const SNAPSHOT_AT_OOM: &str = env!("CARGO_BIN_EXE_snapshot_at_oom");

#[test]
fn overlap() {
    ends_with(OVERLAP, &[], "every batch is right");
}

#[test]
fn overlap_simulated() {
    let printed = ends_with(OVERLAP, &["--sim"], "every batch is right").unwrap();
    // The simulated work runs when somebody waits: the host is ahead by all batches.
    let expected = [
        "record_stream: 8 batches of 4 MiB, through 40 MiB",
        "wait_stream: 8 batches of 4 MiB, through 20 MiB",
        "held until the streams meet: 8 batches of 4 MiB, through 20 MiB",
    ];
    assert_eq!(printed.lines().take(3).collect::<Vec<_>>(), expected);
}

#[test]
fn graph() {
    ends_with(GRAPH, &[], "updated, replayed once more, and the result is right");
}

#[test]
fn graph_simulated() {
    ends_with(GRAPH, &["--sim"], "updated, replayed once more, and the result is right");
}

#[test]
fn out_of_memory() {
    ends_with(OUT_OF_MEMORY, &[], "the weights are what they were; 3 refusals");
}

#[test]
fn out_of_memory_simulated() {
    let printed = output(OUT_OF_MEMORY, &["--sim"]).unwrap();
    let expected = "\
180 MiB fit once the program's cache had gone: 0 pieces are left of it
refused 1024 MiB: 4 MiB of 256 are held
refused 512 MiB: 4 MiB of 256 are held
refused 256 MiB: 4 MiB of 256 are held
a batch of 128 MiB fits
the weights are what they were; 3 refusals
";
    assert_eq!(printed, expected);
}

#[test]
fn snapshot_at_oom() {
    snapshot_of(&[]);
}

#[test]
fn snapshot_at_oom_simulated() {
    snapshot_of(&["--sim"]);
}

/// The file names the program's layers, and `tensorplay report` reads it, where that has been built.
fn snapshot_of(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("oom.pickle");
    let arguments: Vec<&str> = arguments.iter().copied().chain([file.to_str().unwrap()]).collect();
    let Some(printed) = output(SNAPSHOT_AT_OOM, &arguments) else { return };
    assert!(printed.starts_with("CUDA out of memory. Tried to allocate "), "{printed}");
    let bytes = std::fs::read(&file).unwrap();
    for name in ["device_traces", "embedding", "attention", "mlp", "train"] {
        assert!(bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
    let tensorplay = Path::new(SNAPSHOT_AT_OOM).with_file_name("tensorplay");
    if tensorplay.exists() {
        let page = folder.path().join("report.html");
        let report =
            Command::new(tensorplay).arg("report").arg(&file).arg("--output").arg(&page).output().unwrap();
        let printed = String::from_utf8_lossy(&report.stdout);
        assert!(report.status.success(), "{printed}{}", String::from_utf8_lossy(&report.stderr));
    }
}

#[test]
fn cudarc_interop() {
    let printed = ends_with(env!("CARGO_BIN_EXE_cudarc_interop"), &[], "every result is right");
    if let Some(printed) = printed {
        // Two slices of 4 MiB live at a time, in one segment of 20 MiB.
        assert!(printed.starts_with("100 rounds of two slices: 1 times asked of the driver\n"), "{printed}");
    }
}
