//! The report as a page and as JSON.

use super::recording::Recording;
use super::report::*;
use super::{page, progress};

fn report() -> ReplayReport {
    let recording = Recording {
        device: 0,
        events: 23_105,
        allocations: 7_946,
        segment_events: 61,
        out_of_memory: 1,
        duration_us: Some(1_234_567),
        configuration: Some("expandable_segments:True".into()),
        starts_empty: false,
        segments_at_start: 1,
        live_blocks_at_start: 2,
        peak_requested_bytes: 1_700 << 20,
        peak_reserved_bytes: 1_810 << 20,
        notes: vec![
            "One note.".into(),
            "A note that is so long that it has to go over more than one line, because a page is only so wide."
                .into(),
        ],
    };
    let outcome = Outcome {
        configuration: String::new(),
        device_memory_bytes: Some(24 << 30),
        compared: true,
        order_of_equals: OrderOfEquals::Address,
        placements: Placements { compared: 7_940, as_recorded: 7_939, not_determined: 6 },
        segments: SegmentAgreement { compared: 61, agreed: 60, not_determined: 0 },
        first_difference: Some("event 17: 512 bytes at 0x10200, recorded at 0x10000".into()),
        peaks: Peaks {
            requested_bytes: 1_700 << 20,
            allocated_bytes: 1_707 << 20,
            active_bytes: 1_708 << 20,
            reserved_bytes: 1_810 << 20,
        },
        out_of_memory: Some(OutOfMemory { event: 12_345, message: "CUDA out of memory.".into() }),
        memory_summary: "|the table|\n".into(),
    };
    let empty =
        Recording { device: 1, starts_empty: true, events: 1, allocations: 1, ..Recording::default() };
    let mut fits = outcome.clone();
    fits.out_of_memory = None;
    fits.first_difference = None;
    fits.placements.not_determined = 0;
    fits.order_of_equals = OrderOfEquals::Registration;
    ReplayReport {
        file: "run.pickle".into(),
        devices: vec![
            DeviceReport { recording, outcome: Some(outcome) },
            DeviceReport { recording: empty.clone(), outcome: Some(fits) },
            DeviceReport { recording: Recording { device: 2, ..empty }, outcome: None },
        ],
    }
}

#[test]
fn the_page_tells_a_newcomer_what_happened() {
    insta::assert_snapshot!(page::page(&report()), @"
    run.pickle, device 0

    Recording
      history          23,105 events: 7,946 allocations and 61 changes of segments, 1 out of memory
      lasted           1.235 s
      starts           in a running process, with 1 segment and 2 live blocks
      configuration    expandable_segments:True

    Memory at its peak         recorded     replayed
      requested                1.66 GiB     1.66 GiB   what the program asked for
      allocated                             1.67 GiB   its blocks, with sizes rounded up
      active                                1.67 GiB   and blocks that waited for other streams
      reserved                 1.77 GiB     1.77 GiB   what the driver had given
      waste                               103.00 MiB   5.7 % of it, reserved beyond the peak of allocated

    Replay
      configuration    PyTorch's defaults
      fits             no: out of memory at event 12,345, with 24.00 GiB
                       CUDA out of memory.
      placements       7,939 of 7,940 as recorded; 6 that the file leaves open
      segments         60 of 61 as recorded
      equal blocks     lowest address first, as PyTorch before 2.15
      first difference event 17: 512 bytes at 0x10200, recorded at 0x10000

    Notes
      - One note.
      - A note that is so long that it has to go over more than one line, because a page is
        only so wide.

    |the table|

    run.pickle, device 1

    Recording
      history          1 event: 1 allocation and 0 changes of segments
      starts           from an empty device
      configuration    not recorded

    Memory at its peak         recorded     replayed
      requested                     0 B     1.66 GiB   what the program asked for
      allocated                             1.67 GiB   its blocks, with sizes rounded up
      active                                1.67 GiB   and blocks that waited for other streams
      reserved                      0 B     1.77 GiB   what the driver had given
      waste                               103.00 MiB   5.7 % of it, reserved beyond the peak of allocated

    Replay
      configuration    PyTorch's defaults
      fits             yes, in 24.00 GiB
      placements       7,939 of 7,940 as recorded
      segments         60 of 61 as recorded
      equal blocks     oldest memory first, as PyTorch 2.15

    |the table|

    run.pickle, device 2

    Recording
      history          1 event: 1 allocation and 0 changes of segments
      starts           from an empty device
      configuration    not recorded

    Memory at its peak         recorded
      requested                     0 B                what the program asked for
      reserved                      0 B                what the driver had given
    ");
    let nothing = ReplayReport { file: "run.pickle".into(), devices: Vec::new() };
    assert_eq!(page::page(&nothing), "run.pickle: nothing was recorded on any device\n");
}

#[test]
fn the_json_has_every_number() {
    let json = report().to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let device = &value["devices"][0];
    assert_eq!(device["recording"]["events"], 23_105);
    assert_eq!(device["outcome"]["peaks"]["reserved_bytes"], 1_810u64 << 20);
    assert_eq!(device["outcome"]["order_of_equals"], "address");
    assert_eq!(device["outcome"]["out_of_memory"]["event"], 12_345);
    assert!(value["devices"][2]["outcome"].is_null());
    assert!(json.ends_with("}\n"));
}

#[test]
fn nothing_reserved_wastes_nothing() {
    assert_eq!(Peaks::default().waste(), 0.0);
    assert_eq!(Peaks { allocated_bytes: 3, reserved_bytes: 4, ..Peaks::default() }.waste(), 0.25);
}

#[test]
fn the_progress_bar_takes_any_position() {
    let bar = progress::Progress::new("Replaying", 3);
    for done in [0, 3, 7] {
        bar.set(done);
    }
}
