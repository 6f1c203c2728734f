//! `tensorplay replay` on real snapshots.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use super::recording::{Replayed, replay_json};
use super::*;

/// All recordings, and those of them that hold no segment event.
const TRACES: [&str; 10] = [
    "cross-entropy-compiled",
    "cross-entropy-eager",
    "opt-zeroth-order-finetune",
    "transformer-2.7b-forward",
    "transformer-train-compiled-warm",
    "transformer-train-fp32",
    "transformer-train-mixed",
    "transformer-xl-expandable-warm",
    "transformer-xl-fullstep-bf16-warm",
    "transformer-xl-train-warm",
];
const WITHOUT_SEGMENT_EVENTS: [&str; 3] = [
    "transformer-train-compiled-warm",
    "transformer-xl-expandable-warm",
    "transformer-xl-fullstep-bf16-warm",
];

/// The page of a recording, less its first line, which names the file.
fn page(name: &str, options: &[&str]) -> (Option<i32>, String) {
    let output = tensorplay().arg("replay").args(options).arg(trace(name)).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = stdout(&output);
    let (_, text) = text.split_once('\n').unwrap();
    (output.status.code(), text.to_owned())
}

fn unpacked(name: &str) -> Vec<u8> {
    let packed = std::fs::read(trace(name)).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The JSON form of `cross-entropy-eager`.
fn as_json() -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/traces/cross-entropy-eager.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn every_recording_is_reproduced() {
    let mut table = String::new();
    for name in TRACES {
        let replayed = Replayed::of(&trace(name), &[]);
        assert_eq!(replayed.report["as_wanted"], true, "{name}");
        let recording = &replayed.report["devices"][0]["recording"];
        let peaks = &replayed.replay(0)["peaks"];
        assert_eq!(peaks["requested_bytes"], recording["peak_requested_bytes"], "{name}");
        assert_eq!(peaks["reserved_bytes"], recording["peak_reserved_bytes"], "{name}");
        if WITHOUT_SEGMENT_EVENTS.contains(&name) {
            assert_eq!(replayed.replay(0)["comparison"]["segments"]["replayed"], 0, "{name}: a driver call");
        }
        let order = replayed.replay(0)["order_of_equals"].as_str().unwrap();
        table += &format!("{name}: {} ({order})\n", replayed.compared().trim_end());
    }
    insta::assert_snapshot!(table, @"
    cross-entropy-compiled: 8 of 8 + 0, segments 5 of 5 + 0 (either)
    cross-entropy-eager: 8 of 8 + 0, segments 5 of 5 + 0 (either)
    opt-zeroth-order-finetune: 7946 of 7946 + 0, segments 61 of 61 + 0 (address)
    transformer-2.7b-forward: 2511 of 2511 + 0, segments 245 of 245 + 0 (address)
    transformer-train-compiled-warm: 2162 of 2162 + 0, segments 0 of 0 + 0 (either)
    transformer-train-fp32: 3907 of 3907 + 0, segments 80 of 80 + 0 (address)
    transformer-train-mixed: 4404 of 4404 + 0, segments 88 of 88 + 0 (address)
    transformer-xl-expandable-warm: 1704 of 1704 + 0, segments 0 of 0 + 0 (either)
    transformer-xl-fullstep-bf16-warm: 6288 of 6288 + 0, segments 0 of 0 + 0 (either)
    transformer-xl-train-warm: 8768 of 8768 + 0, segments 678 of 678 + 0 (address)
    ");
}

#[test]
fn the_page_of_every_recording_says_so_first() {
    let mut texts = String::new();
    for name in TRACES {
        let (code, page) = page(name, &[]);
        assert_eq!(code, Some(0), "{name}");
        texts += &format!("{name}:{}\n", page.lines().nth(1).unwrap());
    }
    insta::assert_snapshot!(texts, @"
    cross-entropy-compiled:  Reproduced: every one of 8 placements and 5 segment events, in order.
    cross-entropy-eager:  Reproduced: every one of 8 placements and 5 segment events, in order.
    opt-zeroth-order-finetune:  Reproduced: every one of 7,946 placements and 61 segment events, in order.
    transformer-2.7b-forward:  Reproduced: every one of 2,511 placements and 245 segment events, in order.
    transformer-train-compiled-warm:  Reproduced: every one of 2,162 placements, in order.
    transformer-train-fp32:  Reproduced: every one of 3,907 placements and 80 segment events, in order.
    transformer-train-mixed:  Reproduced: every one of 4,404 placements and 88 segment events, in order.
    transformer-xl-expandable-warm:  Reproduced: every one of 1,704 placements, in order.
    transformer-xl-fullstep-bf16-warm:  Reproduced: every one of 6,288 placements, in order.
    transformer-xl-train-warm:  Reproduced: every one of 8,768 placements and 678 segment events, in order.
    ");
}

#[test]
fn a_whole_page() {
    let (code, page) = page("cross-entropy-eager", &[]);
    assert_eq!(code, Some(0));
    insta::assert_snapshot!(page, @"

      Reproduced: every one of 8 placements and 5 segment events, in order.

    Memory at its peak         recorded     replayed
      requested             1000.01 MiB  1000.01 MiB   what the program asked for
      allocated                          1000.01 MiB   its blocks, with sizes rounded up
      active                             1000.01 MiB   and blocks that waited for other streams
      reserved              1002.00 MiB  1002.00 MiB   what the driver had given
      waste                                 1.99 MiB   0.2 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
     1002.00 MiB │              ▇······
                 │              █······
                 │          ▇▇▇▇█▇▇····
                 │          ███████····
                 │     ▇▇▇▇▇███████▇▇▇▇
                 │     ████████████████
                 │ ▇▇▇▇████████████████
                 │ ████████████████████
               0 └─────────────────────

    Recording
      history          21 events: 8 allocations and 5 changes of segments
      lasted           0.081 s
      starts           from an empty device
      configuration    PyTorch's defaults

    Replay
      configuration    PyTorch's defaults
      device memory    unlimited
      placements       8 of 8 as recorded
      segment events   5 of 5 as recorded
      equal blocks     oldest memory or lowest address first: both agree

    |===========================================================================|
    |                  PyTorch CUDA memory summary, device ID 0                 |
    |---------------------------------------------------------------------------|
    |            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
    |===========================================================================|
    |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
    |---------------------------------------------------------------------------|
    | Allocated memory      | 512008 KiB |   1000 MiB |   1000 MiB | 512001 KiB |
    |       from large pool | 512000 KiB |   1000 MiB |   1000 MiB | 512000 KiB |
    |       from small pool |      8 KiB |      0 MiB |      0 MiB |      1 KiB |
    |---------------------------------------------------------------------------|
    | Active memory         | 512008 KiB |   1000 MiB |   1000 MiB | 512001 KiB |
    |       from large pool | 512000 KiB |   1000 MiB |   1000 MiB | 512000 KiB |
    |       from small pool |      8 KiB |      0 MiB |      0 MiB |      1 KiB |
    |---------------------------------------------------------------------------|
    | Requested memory      | 512008 KiB |   1000 MiB |   1000 MiB | 512000 KiB |
    |       from large pool | 512000 KiB |   1000 MiB |   1000 MiB | 512000 KiB |
    |       from small pool |      8 KiB |      0 MiB |      0 MiB |      0 KiB |
    |---------------------------------------------------------------------------|
    | GPU reserved memory   |   1002 MiB |   1002 MiB |   1002 MiB |      0 B   |
    |       from large pool |   1000 MiB |   1000 MiB |   1000 MiB |      0 B   |
    |       from small pool |      2 MiB |      2 MiB |      2 MiB |      0 B   |
    |---------------------------------------------------------------------------|
    | Non-releasable memory |   2039 KiB |   2040 KiB |   2041 KiB |   1536 B   |
    |       from large pool |      0 KiB |      0 KiB |      0 KiB |      0 B   |
    |       from small pool |   2039 KiB |   2040 KiB |   2041 KiB |   1536 B   |
    |---------------------------------------------------------------------------|
    | Allocations           |       4    |       7    |       8    |       4    |
    |       from large pool |       2    |       4    |       4    |       2    |
    |       from small pool |       2    |       4    |       4    |       2    |
    |---------------------------------------------------------------------------|
    | Active allocs         |       4    |       7    |       8    |       4    |
    |       from large pool |       2    |       4    |       4    |       2    |
    |       from small pool |       2    |       4    |       4    |       2    |
    |---------------------------------------------------------------------------|
    | GPU reserved segments |       5    |       5    |       5    |       0    |
    |       from large pool |       4    |       4    |       4    |       0    |
    |       from small pool |       1    |       1    |       1    |       0    |
    |---------------------------------------------------------------------------|
    | Non-releasable allocs |       1    |       2    |       2    |       1    |
    |       from large pool |       0    |       0    |       0    |       0    |
    |       from small pool |       1    |       2    |       2    |       1    |
    |---------------------------------------------------------------------------|
    | Oversize allocations  |       0    |       0    |       0    |       0    |
    |---------------------------------------------------------------------------|
    | Oversize GPU segments |       0    |       0    |       0    |       0    |
    |===========================================================================|
    ");
}

#[test]
fn a_history_from_a_running_process_is_reported_with_notes() {
    let (_, page) = page("transformer-xl-expandable-warm", &[]);
    let page = page.split("\n|===").next().unwrap();
    insta::assert_snapshot!(page, @"

      Reproduced: every one of 1,704 placements, in order.

    Memory at its peak         recorded     replayed
      requested               39.62 GiB    39.62 GiB   what the program asked for
      allocated                            39.62 GiB   its blocks, with sizes rounded up
      active                               39.62 GiB   and blocks that waited for other streams
      reserved                40.17 GiB    40.17 GiB   what the driver had given
      waste                               567.12 MiB   1.4 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
       40.17 GiB │············································▁▁▂▃▄▅▅▆▇▄▂·················
                 │···································▁▂▃▄▅▅▆▇█████████████▆▄▂·············
                 │·························▁▂▃▃▄▅▆▇███████████████████████████▅▃▁·········
                 │···············▁▁▂▃▄▅▆▇▇███████████████████████████████████████▇▅▃······
                 │·····▁▁▂▃▄▅▅▆▇█████████████████████████████████████████████████████▇▄▂··
                 │▄▅▆▇███████████████████████████████████████████████████████████████████▆
                 │████████████████████████████████████████████████████████████████████████
                 │████████████████████████████████████████████████████████████████████████
               0 └────────────────────────────────────────────────────────────────────────

    Recording
      history          5,112 events: 1,704 allocations and 0 changes of segments
      lasted           0.300 s
      starts           in a running process, with 2 segments and 294 live blocks
      configuration    expandable_segments:True

    Replay
      configuration    expandable_segments:True
      device memory    unlimited
      placements       1,704 of 1,704 as recorded
      segment events   none to compare
      equal blocks     oldest memory or lowest address first: both agree

    Notes
      - Recording began in a running process. The segments and live blocks of that moment
        follow from the end of the file; the order in which the segments had been obtained is
        not recorded.
    ");
}

#[test]
fn a_whole_report_as_json() {
    let mut report = Replayed::of(&trace("cross-entropy-eager"), &["--device-memory", "900MiB"]).report;
    report["file"] = "FILE".into();
    report["devices"][0]["replay"]["memory_summary"] = "TABLE".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
    {
      "as_wanted": false,
      "devices": [
        {
          "recording": {
            "allocations": 8,
            "configuration": "",
            "device": 0,
            "duration_us": 81090,
            "events": 21,
            "live_blocks_at_start": 0,
            "notes": [],
            "out_of_memory": 0,
            "peak_requested_bytes": 1048584196,
            "peak_reserved_bytes": 1050673152,
            "segment_events": 5,
            "segments_at_start": 0,
            "starts_empty": true
          },
          "replay": {
            "comparison": null,
            "configuration": "",
            "device_memory_bytes": 943718400,
            "driver_calls": 6,
            "memory_summary": "TABLE",
            "notes": [],
            "order_of_equals": "registration",
            "out_of_memory": {
              "event": 14,
              "message": "CUDA out of memory. Tried to allocate 250.00 MiB. GPU 0 has a total capacity of 900.00 MiB of which 148.00 MiB is free. Of the allocated memory 750.01 MiB is allocated by PyTorch, and 1.99 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
              "requested_bytes": 262144000
            },
            "peaks": {
              "active_bytes": 786441728,
              "allocated_bytes": 786441728,
              "requested_bytes": 786440198,
              "reserved_bytes": 788529152
            }
          }
        }
      ],
      "file": "FILE",
      "mode": "what_if"
    }
    "#);
}

#[test]
fn the_same_snapshot_in_other_forms_gives_the_same_report() {
    let report = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snapshot");
        std::fs::write(&file, bytes).unwrap();
        let output = tensorplay().arg("replay").arg(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        stdout(&output).split_once('\n').unwrap().1.to_owned()
    };
    let packed = std::fs::read(trace("cross-entropy-eager")).unwrap();
    let page = report(&packed);
    assert_eq!(page, report(&unpacked("cross-entropy-eager")));
    assert_eq!(page, report(as_json().to_string().as_bytes()));
}

/// The address of the eighth allocation, a small block that is freed before the end.
const SMALL_BLOCK: u64 = 0x7fbf_abc0_2200;

#[test]
fn what_was_tampered_with_differs() {
    let replaced = |old: &str, new: &str| {
        let text = as_json().to_string();
        assert!(text.contains(old), "{text}");
        replay_json(&text.replace(old, new), &[]).compared()
    };
    let small = |address: u64| format!(r#""addr":{address}"#);
    let texts = [
        // A block is elsewhere in its segment.
        replaced(&small(SMALL_BLOCK), &small(SMALL_BLOCK + 4096)),
        // The size of a segment alone.
        replaced("2097152", "4194304"),
    ];
    insta::assert_snapshot!(texts.concat(), @"
    7 of 8 + 0, segments 5 of 5 + 0
    event 7: 2 bytes were placed at 0x7fbfabc02200, and at 0x7fbfabc03200 when recorded
    8 of 8 + 0, segments 4 of 5 + 0
    event 3: the recording obtained a segment of 4194304 bytes at 0x7fbfabc00000, and the replay obtained a segment of 2097152 bytes at 0x7fbfabc00000
    ");
}

#[test]
fn an_event_that_is_missing_is_found_out() {
    let without = |place: usize| {
        let mut snapshot = as_json();
        snapshot["device_traces"][0].as_array_mut().unwrap().remove(place);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snapshot");
        std::fs::write(&file, snapshot.to_string()).unwrap();
        complaint(&tensorplay().arg("replay").arg(file).output().unwrap())
    };
    let complaints = [1, 11, 12].map(without);
    let complaints = complaints.iter().map(|text| text.split_once("snapshot: ").unwrap().1);
    insta::assert_snapshot!(complaints.collect::<String>(), @"
    device_traces[0][0]: obtains memory in which the block at 0x7fbf9c000000 already lives
    device_traces[0][7]: a free of the block at 0x7fbfabc02200 is missing behind this
    device_traces[0][11]: frees 0x7fbfabc02200, but behind this the block is neither freed nor waiting to be freed
    ");
}

#[test]
fn what_fits_and_what_does_not() {
    let (code, fits) = page("transformer-train-fp32", &["--device-memory", "1GiB"]);
    assert_eq!(code, Some(0));
    let (code, does_not) = page("transformer-train-fp32", &["--device-memory", "900MiB"]);
    assert_eq!(code, Some(1));
    let (code, other) = page("transformer-train-fp32", &["--conf", "max_split_size_mb:21"]);
    assert_eq!(code, Some(0));
    let parts = [fits, does_not, other].map(|page| page.split("\n\nRecording").next().unwrap().to_owned());
    insta::assert_snapshot!(parts.join("\n---\n"), @"

      Fits in 1.00 GiB; at most 1014.00 MiB are reserved.

    Memory at its peak         recorded     replayed
      requested              893.63 MiB   893.63 MiB   what the program asked for
      allocated                           909.54 MiB   its blocks, with sizes rounded up
      active                              909.54 MiB   and blocks that waited for other streams
      reserved              1014.00 MiB  1014.00 MiB   what the driver had given
      waste                               104.46 MiB   10.3 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
     1014.00 MiB │    ························▁·······················▁···················
                 │    █▃▃·····················█▄▁····················▅█▃··················
                 │   ▃███▅▅··················████▅▅·················▁███▆▅▂···············
                 │  ·██████▇▇▁··············▆██████▇▇▁▁············▁███████▇▇▁▁···········
                 │ ▁███████████▄▇▃▃▃▃▃▃▃▃▃█▅███████████▆█▃▃▃▃▃▃▃▃▆██████████████▄▃▃▃▃▃▃▃▃█
                 │·███████████████████████████████████████████████████████████████████████
                 │████████████████████████████████████████████████████████████████████████
                 │████████████████████████████████████████████████████████████████████████
               0 └────────────────────────────────────────────────────────────────────────
    ---

      Does not fit in 900.00 MiB: out of memory at event 778 of 11,477, on a request for
      57.22 MiB.

      CUDA out of memory. Tried to allocate 58.00 MiB. GPU 0 has a total capacity of
      900.00 MiB of which 22.00 MiB is free. Of the allocated memory 838.55 MiB is allocated
      by PyTorch, and 39.45 MiB is reserved by PyTorch but unallocated. If reserved but
      unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
      to avoid fragmentation. See documentation for Memory Management
      (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)

    Memory at its peak         recorded     replayed
      requested              893.63 MiB   828.66 MiB   what the program asked for
      allocated                           838.94 MiB   its blocks, with sizes rounded up
      active                              838.94 MiB   and blocks that waited for other streams
      reserved              1014.00 MiB   880.00 MiB   what the driver had given
      waste                                41.06 MiB   4.7 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
      880.00 MiB │    ▅
                 │   ▂█
                 │   ██
                 │  ▅██
                 │ ▅███
                 │▃████
                 │█████
                 │█████
               0 └─────
    ---

      Runs with unlimited memory; at most 1.01 GiB are reserved.

    Memory at its peak         recorded     replayed
      requested              893.63 MiB   893.63 MiB   what the program asked for
      allocated                           910.12 MiB   its blocks, with sizes rounded up
      active                              910.12 MiB   and blocks that waited for other streams
      reserved              1014.00 MiB     1.01 GiB   what the driver had given
      waste                               125.88 MiB   12.2 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
        1.01 GiB │    ····································································
                 │    ▇▂▂·····················█▂·····················▄█▂··················
                 │   ▂███▄▄··················▇███▄▄··················███▆▅▁···············
                 │  ·██████▆▆···············▅██████▇▆···············███████▆▆▁············
                 │ ▁▇██████████▃▇▂▃▂▃▃▃▃▂▃▇▅███████████▆▇▃▃▂▃▂▃▃▃▆▇████████████▇▃▃▃▃▃▂▃▃▃▇
                 │·███████████████████████████████████████████████████████████████████████
                 │████████████████████████████████████████████████████████████████████████
                 │████████████████████████████████████████████████████████████████████████
               0 └────────────────────────────────────────────────────────────────────────
    ");
    let warm = Replayed::of(&trace("transformer-xl-train-warm"), &["--device-memory", "8GiB"]);
    assert!(warm.code == 1 && warm.replay(0)["out_of_memory"]["event"].is_null());
}

#[test]
fn the_smallest_device_refuses_the_first_request() {
    let replayed = Replayed::of(&trace("cross-entropy-eager"), &["--device-memory", "1B"]);
    assert_eq!(replayed.code, 1);
    assert_eq!(replayed.replay(0)["out_of_memory"]["requested_bytes"], 262_144_000);
}

#[test]
fn arguments_that_cannot_be_served() {
    let file = trace("cross-entropy-eager");
    let refused =
        |options: &[&str]| complaint(&tensorplay().arg("replay").args(options).arg(&file).output().unwrap());
    let complaints = [
        refused(&["--conf", "no_such_key:1"]),
        refused(&["--conf", "max_split_size_mb:5"]),
        refused(&["--device-memory", "65TiB"]),
        refused(&["--device-memory", "0"]),
    ];
    insta::assert_snapshot!(complaints.concat(), @"
    error: --conf: Unrecognized key 'no_such_key' in CUDA allocator config.
    error: --conf: CachingAllocator option max_split_size_mb too small, must be >= 20
    error: --device-memory: 65.00 TiB is more than 64.00 TiB, the most that is simulated
    error: --device-memory: a device of 0 bytes holds nothing
    ");
    for size in ["24G", "-1", "much", "99999999TiB"] {
        let output = tensorplay().args(["replay", "--device-memory", size]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert!(output.stdout.is_empty());
    }
    let both =
        tensorplay().args(["replay", "--oracle", "--format", "json", "--ops"]).arg(&file).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "an oracle's lines have one form");
}

#[test]
fn the_environment_changes_nothing() {
    let mut command = tensorplay();
    command.arg("replay").arg(trace("transformer-train-fp32"));
    let plain = command.output().unwrap();
    command.env("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:21").env("PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
    command.env("FAKE_CUDA_TOTAL_BYTES", "1");
    assert_eq!(plain.stdout, command.output().unwrap().stdout);
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
