//! `tensorplay report`.

use super::recording::{BASE, MIB, Recording};
use super::*;

/// Runs the command on a file, and gives its code and what it wrote: the page, the SVG, the PNG.
fn report(file: &std::path::Path, options: &[&str]) -> (Option<i32>, [Vec<u8>; 3], String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut command = tensorplay();
    command.arg("report").arg(file).args(options);
    command.arg("-o").arg(at("a.html")).arg("--svg").arg(at("a.svg")).arg("--png").arg(at("a.png"));
    let output = command.output().unwrap();
    let read = |name: &str| std::fs::read(at(name)).unwrap_or_default();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), [read("a.html"), read("a.svg"), read("a.png")], error)
}

/// The data of a page.
fn data(page: &[u8]) -> serde_json::Value {
    let page = std::str::from_utf8(page).unwrap();
    let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn every_recording_gets_its_page_and_pictures() {
    for name in ["transformer-train-mixed", "transformer-xl-expandable-warm", "cross-entropy-eager"] {
        let (code, files, error) = report(&trace(name), &[]);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{name}");
        assert_eq!(report(&trace(name), &[]).1, files, "{name}: the same each time");
        let [page, svg, png] = files;
        let data = data(&page);
        assert_eq!(data["file"], format!("{name}.pickle.gz"));
        assert!(data["devices"][0]["block_count"].as_u64().unwrap() > 4, "{name}");
        assert!(svg.starts_with(b"<svg") && png.starts_with(b"\x89PNG"));
    }
}

#[test]
fn other_terms_are_replayed_first() {
    let (code, [page, ..], _) = report(&trace("transformer-train-mixed"), &["--device-memory", "900MiB"]);
    assert_eq!(code, Some(0));
    let data = data(&page);
    let device = &data["devices"][0];
    assert_eq!(device["refusals"].as_array().unwrap().len(), 1, "the history ends where memory did");
    assert!(device["about"].as_str().unwrap().contains("not as recorded"));
    assert!(device["owners"].as_array().unwrap().len() > 20, "stacks are those of the recording");
}

#[test]
fn each_device_is_in_the_page_and_one_in_the_pictures() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 2 * MIB, 100);
    recording.ends_with(BASE, &[(100, 512), (0, 2 * MIB - 512)]);
    recording.next_device();
    recording.next_device();
    recording.alloc_segment(BASE, 20 * MIB, 2 * MIB);
    recording.alloc(BASE + 2 * MIB, 2 * MIB);
    recording.ends_with(BASE, &[(2 * MIB, 2 * MIB), (2 * MIB, 2 * MIB), (0, 16 * MIB)]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json");
    std::fs::write(&file, recording.json()).unwrap();
    let (_, [page, svg, _], _) = report(&file, &[]);
    let devices: Vec<_> =
        data(&page)["devices"].as_array().unwrap().iter().map(|d| d["device"].clone()).collect();
    assert_eq!(devices, [0, 2]);
    assert!(String::from_utf8(svg).unwrap().contains("device 2</title>"));
    let (_, [_, svg, _], _) = report(&file, &["--device", "0"]);
    assert!(String::from_utf8(svg).unwrap().contains("device 0</title>"));
    let (code, files, error) = report(&file, &["--device", "1"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: --device: ") && files.iter().all(Vec::is_empty), "{error}");
}

#[test]
fn bad_input_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    for bytes in [&b"hello"[..], b"", b"\x80\x04}.", br#"{"segments": [{"blocks": []}]}"#] {
        std::fs::write(&file, bytes).unwrap();
        let (code, files, error) = report(&file, &[]);
        assert_eq!(code, Some(2));
        assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
        assert!(files.iter().all(Vec::is_empty));
    }
    let frames = br#"{"segments": [], "device_traces": [[
        {"action": "alloc", "addr": 4096, "size": 1, "frames": [{"filename": 3}]}]]}"#;
    std::fs::write(&file, frames).unwrap();
    assert!(report(&file, &[]).2.contains("device_traces[0][0].frames[0].filename"));
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let output = run(&[
        "report".as_ref(),
        trace("cross-entropy-eager").as_os_str(),
        "-o".as_ref(),
        "/nowhere/at/all.html".as_ref(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: /nowhere/at/all.html cannot be written: "), "{error}");
    let nothing_asked = run(&["report".as_ref(), trace("cross-entropy-eager").as_os_str()]);
    assert_eq!(nothing_asked.status.code(), Some(2));
}
