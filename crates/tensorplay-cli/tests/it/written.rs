//! `tensorplay replay --snapshot` and `--trace`: files that the command itself and PyTorch's tools read.

use std::process::Stdio;

use super::*;

fn replay(args: &[&str], file: &std::path::Path) -> Output {
    tensorplay().arg("replay").args(args).arg(file).output().unwrap()
}

/// What was written is the recording again: it is reproduced, with the same peaks.
#[test]
fn a_replay_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("again.pickle");
    for name in ["transformer-train-mixed", "transformer-xl-train-warm", "cross-entropy-eager"] {
        let first = replay(&["--snapshot", written.to_str().unwrap()], &trace(name));
        assert_eq!(first.status.code(), Some(0), "{name}");
        let again = replay(&[], &written);
        assert_eq!(again.status.code(), Some(0), "{name}: {}", stdout(&again));
        let memory = |output: &Output| {
            let text = stdout(output);
            let from = text.find("Memory at its peak").unwrap();
            text[from..text.find("Recording\n").unwrap()].to_owned()
        };
        assert_eq!(memory(&first), memory(&again), "{name}");
    }
}

const TOOLS: &str = r#"
import pickle, sys
from torch.cuda import _memory_viz as viz
s = pickle.load(open(sys.argv[1], 'rb'))
theirs = pickle.load(__import__('gzip').open(sys.argv[2]))
one, other = s['device_traces'][0], theirs['device_traces'][0]
one = [e for e in one if e['action'] != 'snapshot']
# The program's calls are at their times; what follows from a call is at that of the call.
called = ('alloc', 'free_requested')
names = lambda e: ('action', 'addr', 'size', 'stream') + (('time_us',) if e['action'] in called else ())
assert [[e[n] for n in names(e)] for e in one] == [[e[n] for n in names(e)] for e in other]
frames = lambda e: [(f['filename'], f['name'], f['line']) for f in e['frames']]
allocations = [(frames(a), frames(b)) for a, b in zip(one, other) if b['action'] == 'alloc']
assert all(a == b for a, b in allocations) and allocations
viz.segsum(s); viz.trace(s); viz.trace_plot(s); viz.segment_plot(s)
viz.memory(s, format_flamegraph=lambda lines: lines)
print('opened')
"#;

#[test]
#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
fn pytorchs_tools_open_it_and_find_the_recording_again() {
    let python = std::env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_torch = Command::new(&python)
        .args(["-c", "import torch.cuda._memory_viz"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_torch {
        println!("skipped: no PyTorch in `{python}` (TORCH_PYTHON names another)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("again.pickle");
    replay(&["--snapshot", written.to_str().unwrap()], &trace("transformer-train-mixed"));
    let opened = Command::new(&python)
        .args(["-c", TOOLS])
        .arg(&written)
        .arg(trace("transformer-train-mixed"))
        .output()
        .unwrap();
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    assert_eq!(stdout(&opened), "opened\n");
}

#[test]
fn a_replay_as_trace_events() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("trace.json");
    let output = replay(
        &["--trace", written.to_str().unwrap(), "--device-memory", "900MiB"],
        &trace("cross-entropy-eager"),
    );
    assert_eq!(output.status.code(), Some(1), "memory runs out");
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&written).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(count("b") > 2 && count("C") > count("b"));
    assert!(events.iter().any(|event| event["name"] == "oom"));
}

#[test]
fn timing_is_said_beside_the_result() {
    let output = replay(&["--timing"], &trace("cross-entropy-eager"));
    assert_eq!(output.status.code(), Some(0));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("reading: ") && error.contains("\nreplaying: "), "{error}");
}
