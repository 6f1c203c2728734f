//! The report as a page and as JSON; recordings that begin later.

use super::chart::Timeline;
use super::page;
use super::recording::Recording;
use super::report::*;
use super::settings::{for_comparison, recorded_config};
use super::terms::Terms;
use crate::progress::{Bar, Progress};
use crate::snapshot::initial_state;
use crate::snapshot::tests::load;

fn recording() -> Recording {
    Recording {
        device: 0,
        events: 23_105,
        allocations: 7_946,
        segment_events: 61,
        out_of_memory: 1,
        duration_us: Some(1_234_567),
        configuration: Some("expandable_segments:True,\u{1b}[31m".into()),
        starts_empty: false,
        segments_at_start: 1,
        live_blocks_at_start: 2,
        peak_requested_bytes: 1_700 << 20,
        peak_reserved_bytes: 1_810 << 20,
        notes: vec!["One note.".into()],
    }
}

fn replay() -> Replay {
    Replay {
        configuration: String::new(),
        device_memory_bytes: None,
        driver_calls: None,
        order_of_equals: OrderOfEquals::Address,
        peaks: Peaks {
            requested_bytes: 1_700 << 20,
            allocated_bytes: 1_707 << 20,
            active_bytes: 1_708 << 20,
            reserved_bytes: 1_810 << 20,
        },
        comparison: Some(Comparison {
            placements: Placements { compared: 7_940, as_recorded: 7_939, not_determined: 6 },
            segments: SegmentAgreement { compared: 61, as_recorded: 60, not_determined: 0, replayed: 60 },
            first_difference: Some(Difference {
                event: 1_017,
                what: "512 bytes were placed at 0x10200, and at 0x10000 when recorded".into(),
            }),
        }),
        plan: None,
        out_of_memory: None,
        timeline: timeline(),
        notes: vec![
            "A note that is so long that it has to go over more than one line, because a page is only so wide."
                .into(),
        ],
        memory_summary: "|the table|\n".into(),
    }
}

/// A climb in four steps, and a fall.
fn timeline() -> Timeline {
    let mut timeline = Timeline::new(5);
    for (event, bytes) in [(1, 2), (30, 40), (60, 64), (64, 64), (3, 64)].into_iter().enumerate() {
        timeline.note(event, bytes);
    }
    timeline
}

fn report(mode: Mode, replay: Replay) -> ReplayReport {
    ReplayReport::new("run.pickle".into(), mode, vec![DeviceReport { recording: recording(), replay }])
}

#[test]
fn the_page_tells_a_newcomer_what_happened() {
    insta::assert_snapshot!(page::page(&report(Mode::Comparison, replay())), @r"
    run.pickle, device 0

      Differs from the recording, first at event 1,017: 512 bytes were placed at 0x10200, and
      at 0x10000 when recorded. 7,939 of 7,940 placements and 60 of 61 segment events are as
      recorded. The file leaves 6 placements open.

    Memory at its peak         recorded     replayed
      requested                1.66 GiB     1.66 GiB   what the program asked for
      allocated                             1.67 GiB   its blocks, with sizes rounded up
      active                                1.67 GiB   and blocks that waited for other streams
      reserved                 1.77 GiB     1.77 GiB   what the driver had given
      waste                               103.00 MiB   5.7 % of it, reserved beyond the peak of allocated

    From the first event to the last: █ allocated, · reserved
            64 B │  ▄█·
                 │  ██·
                 │  ██·
                 │ ·██·
                 │ ▆██·
                 │ ███·
                 │ ███·
                 │▁███▃
               0 └─────

    Recording
      history          23,105 events: 7,946 allocations and 61 changes of segments, 1 out of memory
      lasted           1.235 s
      starts           in a running process, with 1 segment and 2 live blocks
      configuration    expandable_segments:True,\u{1b}[31m

    Replay
      configuration    PyTorch's defaults
      device memory    unlimited
      placements       7,939 of 7,940 as recorded; 6 that the file leaves open
      segment events   60 of 61 as recorded
      equal blocks     lowest address first, as PyTorch before 2.15

    Notes
      - One note.
      - A note that is so long that it has to go over more than one line, because a page is
        only so wide.

    |the table|
    ");
    let nothing = ReplayReport::new("run.pickle".into(), Mode::Comparison, Vec::new());
    assert_eq!(page::page(&nothing), "run.pickle: nothing was recorded on any device\n");
}

/// The sentence of a page that says what came of the replay.
fn verdict(replay: Replay) -> String {
    let page = page::page(&report(Mode::Comparison, replay));
    let verdict = page.split("\n\n").nth(1).unwrap();
    verdict.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_says_first_what_came_of_it() {
    let mut texts = Vec::new();
    let with = |change: fn(&mut Comparison)| {
        let mut replay = replay();
        let comparison = replay.comparison.as_mut().unwrap();
        comparison.first_difference = None;
        change(comparison);
        verdict(replay)
    };
    texts.push(with(|c| c.placements.not_determined = 0));
    texts.push(with(|c| c.segments = SegmentAgreement::default()));
    texts.push(with(|c| {
        c.placements = Placements { compared: 1, as_recorded: 1, not_determined: 0 };
        c.segments = SegmentAgreement { compared: 1, as_recorded: 1, not_determined: 0, replayed: 1 };
    }));
    texts.push(with(|c| {
        c.placements = Placements::default();
        c.segments = SegmentAgreement { not_determined: 3, ..SegmentAgreement::default() };
    }));
    let what_if = |event: Option<Option<usize>>, memory| {
        let refused = OutOfMemory {
            event: event.flatten(),
            requested_bytes: 3 << 20,
            message: "CUDA out of memory.".into(),
        };
        let out_of_memory = event.is_some().then_some(refused);
        verdict(Replay { comparison: None, device_memory_bytes: memory, out_of_memory, ..replay() })
    };
    texts.push(what_if(None, None));
    texts.push(what_if(None, Some(24 << 30)));
    texts.push(what_if(Some(Some(12_345)), Some(1 << 30)));
    texts.push(what_if(Some(None), None));
    insta::assert_snapshot!(texts.join("\n"), @"
    Reproduced: every one of 7,940 placements and 61 segment events, in order.
    Reproduced, as far as the file determines it: every one of 7,940 placements, in order. The file leaves 6 placements open.
    Reproduced: every one of 1 placement and 1 segment event, in order.
    Nothing to compare: no decision in the file is determined. The file leaves 0 placements and 3 segment events open.
    Runs with unlimited memory; at most 1.77 GiB are reserved.
    Fits in 24.00 GiB; at most 1.77 GiB are reserved.
    Does not fit in 1.00 GiB: out of memory at event 12,345 of 23,105, on a request for 3.00 MiB.
    Does not fit: out of memory while what was live at the start is allocated, on a request for 3.00 MiB.
    ");
}

#[test]
fn the_json_has_every_number() {
    let json = report(Mode::Comparison, replay()).to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["mode"], "comparison");
    assert_eq!(value["as_wanted"], false);
    let device = &value["devices"][0];
    assert_eq!(device["recording"]["events"], 23_105);
    assert_eq!(device["replay"]["peaks"]["reserved_bytes"], 1_810u64 << 20);
    assert_eq!(device["replay"]["order_of_equals"], "address");
    assert_eq!(device["replay"]["comparison"]["first_difference"]["event"], 1_017);
    assert!(device["replay"]["out_of_memory"].is_null());
    assert!(json.ends_with("}\n"));
}

#[test]
fn nothing_reserved_wastes_nothing() {
    assert_eq!(Peaks::default().waste(), 0.0);
    assert_eq!(Peaks { allocated_bytes: 3, reserved_bytes: 4, ..Peaks::default() }.waste(), 0.25);
}

#[test]
fn the_progress_bar_takes_more_steps_than_were_announced() {
    let bar = Progress::new("Replaying", 3);
    (0..5000).for_each(|_| bar.step());
}

/// Wherever recording had begun, the rest of the run is reproduced from the state that is reconstructed.
#[test]
fn a_recording_that_begins_later_is_reproduced_too() {
    for name in ["transformer-train-mixed", "transformer-2.7b-forward", "transformer-train-compiled-warm"] {
        let mut snapshot = load(name);
        let events = snapshot.device_traces[0].len();
        for part in 1..8 {
            snapshot.device_traces[0].drain(..events / 8);
            let config = for_comparison(&recorded_config(&snapshot).config);
            let terms =
                Terms { config, memory: None, mode: Mode::Comparison, notes: Vec::new(), records: false };
            let initial = initial_state(&snapshot, 0).unwrap();
            let comparison = terms.replay(&snapshot, &initial, &Bar::Own).unwrap().replay.comparison.unwrap();
            assert_eq!(comparison.first_difference, None, "{name} from {part}/8");
            let placements = comparison.placements;
            assert_eq!(placements.as_recorded, placements.compared, "{name} from {part}/8");
            assert!(placements.compared > 0 && placements.not_determined == 0, "{name} from {part}/8");
        }
    }
}

#[test]
fn a_picture_shows_allocated_and_reserved_bytes() {
    insta::assert_snapshot!(timeline().picture().join("\n"), @"
    64 B │  ▄█·
         │  ██·
         │  ██·
         │ ·██·
         │ ▆██·
         │ ███·
         │ ███·
         │▁███▃
       0 └─────
    ");
    assert!(Timeline::new(0).picture().is_empty());
    let mut nothing = Timeline::new(3);
    nothing.note(2, (0, 0));
    assert!(nothing.picture().is_empty());
    // More events than columns, and some that nobody noted.
    let mut long = Timeline::new(100_000);
    long.note(0, (1 << 46, 1 << 46));
    long.note(99_999, (1, 1 << 46));
    let picture = long.picture();
    assert!(picture.iter().all(|line| line.chars().count() <= 86), "{picture:?}");
    assert_eq!(picture[0].matches('█').count(), 71);
}
