//! `tensorplay replay` on real snapshots.

use std::io::Read;
use std::process::Stdio;

use super::*;

#[test]
fn a_history_from_an_empty_device_is_reported() {
    let output = run(&[trace("transformer-train-fp32")]);
    assert_eq!(output.status.code(), Some(2), "a file is no command");
    let output = tensorplay().arg("replay").arg(trace("transformer-train-fp32")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = stdout(&output);
    let (_, text) = text.split_once('\n').unwrap();
    insta::assert_snapshot!(text, @"
    Recording
      history          11,477 events: 3,907 allocations and 80 changes of segments
      lasted           1.011 s
      starts           from an empty device
      configuration    PyTorch's defaults

    Memory at its peak         recorded
      requested              893.63 MiB                what the program asked for
      reserved              1014.00 MiB                what the driver had given
    ");
}

#[test]
fn a_history_from_a_running_process_is_reported_with_notes() {
    let output = tensorplay().arg("replay").arg(trace("transformer-xl-train-warm")).output().unwrap();
    let text = stdout(&output);
    let (_, text) = text.split_once('\n').unwrap();
    insta::assert_snapshot!(text, @"
    Recording
      history          27,358 events: 8,768 allocations and 678 changes of segments
      lasted           0.930 s
      starts           in a running process, with 507 segments and 1,068 live blocks
      configuration    PyTorch's defaults

    Memory at its peak         recorded
      requested               51.32 GiB                what the program asked for
      reserved                62.46 GiB                what the driver had given

    Notes
      - Recording began in a running process. The segments and live blocks of that moment
        follow from the end of the file; the order in which the segments had been obtained is
        not recorded.
      - Blocks of that moment whose size is open by up to 1 MiB: 47. Each is taken as small as
        it can be.
    ");
}

#[test]
fn json_carries_the_same() {
    let output =
        tensorplay().args(["replay", "--format", "json"]).arg(trace("cross-entropy-eager")).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    insta::assert_snapshot!(value["devices"], @r#"[{"outcome":null,"recording":{"allocations":8,"configuration":"","device":0,"duration_us":81090,"events":21,"live_blocks_at_start":0,"notes":[],"out_of_memory":0,"peak_requested_bytes":1048584196,"peak_reserved_bytes":1050673152,"segment_events":5,"segments_at_start":0,"starts_empty":true}}]"#);
}

#[test]
fn the_same_snapshot_is_read_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::read(trace("cross-entropy-eager")).unwrap();
    let mut pickle = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut pickle).unwrap();
    let report = |bytes: &[u8]| {
        let file = folder.path().join("snapshot");
        std::fs::write(&file, bytes).unwrap();
        let output = tensorplay().arg("replay").arg(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        stdout(&output)
    };
    assert_eq!(report(&packed), report(&pickle));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = tensorplay()
        .arg("replay")
        .arg(trace("cross-entropy-eager"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_ends_with_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = tensorplay().arg("replay").arg(trace("cross-entropy-eager")).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: the standard output cannot be written"), "{error}");
}
