//! `tensorplay advise`.

use serde_json::Value;

use super::*;

fn advise(name: &str, options: &[&str]) -> (Option<i32>, String) {
    let output = tensorplay().arg("advise").arg(trace(name)).args(options).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    (output.status.code(), stdout(&output))
}

/// The page less its first line, which names the file.
fn page(name: &str, options: &[&str]) -> (Option<i32>, String) {
    let (code, text) = advise(name, options);
    (code, text.split_once('\n').unwrap().1.to_owned())
}

#[test]
fn a_whole_page() {
    let (code, page) = page("transformer-train-mixed", &[]);
    assert_eq!(code, Some(0));
    insta::assert_snapshot!(page);
}

#[test]
fn with_little_memory_some_fit() {
    let (code, page) = page("transformer-train-mixed", &["--device-memory", "1100MiB"]);
    assert_eq!(code, Some(0));
    insta::assert_snapshot!(page);
    let (code, page) = self::page("cross-entropy-eager", &["--device-memory", "900MiB"]);
    assert_eq!(code, Some(1));
    assert!(page.contains("Nothing that PyTorch can be set to fits in 900.00 MiB."), "{page}");
}

/// Each row is what the replay under its configuration gives.
#[test]
fn the_trials_are_replays() {
    let (_, json) =
        advise("transformer-train-mixed", &["--format", "json", "--conf", "max_split_size_mb:33"]);
    let advice: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(advice["as_wanted"], true);
    let trials = advice["devices"][0]["trials"].as_array().unwrap();
    let reserved: Vec<_> = trials.iter().map(|t| t["peaks"]["reserved_bytes"].as_u64().unwrap()).collect();
    assert!(reserved.is_sorted());
    for conf in ["", "max_split_size_mb:33", "roundup_power2_divisions:4"] {
        let trial = trials.iter().find(|trial| trial["configuration"] == conf).unwrap();
        let output = tensorplay()
            .args(["replay", "--format", "json", "--conf", conf])
            .arg(trace("transformer-train-mixed"))
            .output()
            .unwrap();
        let replay: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(trial["peaks"], replay["devices"][0]["replay"]["peaks"], "{conf}");
    }
}

#[test]
fn bad_arguments_and_files_are_refused() {
    let refused = |args: &[&str]| {
        let output =
            tensorplay().arg("advise").arg(trace("cross-entropy-eager")).args(args).output().unwrap();
        complaint(&output)
    };
    assert!(refused(&["--conf", "no_such_key:1"]).contains("no_such_key"));
    assert!(refused(&["--device-memory", "0"]).contains("holds nothing"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    std::fs::write(&file, "hello").unwrap();
    assert!(complaint(&tensorplay().arg("advise").arg(&file).output().unwrap()).contains("neither a pickle"));
}
