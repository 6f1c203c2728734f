//! Spans, owners and encodings against what is known otherwise.

use std::io::Read as _;
use std::process::{Command, Stdio};

use super::columns::Columns;
use super::data::{DeviceData, PageData};
use super::owners::{Category, Owners};
use super::page::page;
use super::picture::Picture;
use super::png::png;
use super::story::{BlockSpan, Level, Refusal, Story, peak};
use super::svg::svg;
use crate::progress::Bar;
use crate::replay::{Mode, Recording, Terms};
use crate::snapshot::tests::{TRACES, trace_file};
use crate::snapshot::{
    BlockState, InitialState, Limits, Snapshot, Wanted, initial_state, read_file, read_snapshot,
};

fn load(name: &str) -> (Snapshot, InitialState) {
    let snapshot = read_file(&trace_file(name), Limits::default(), Wanted::Stacks).unwrap();
    let initial = initial_state(&snapshot, 0).unwrap();
    (snapshot, initial)
}

fn read_json(json: &str) -> Snapshot {
    read_snapshot(json.as_bytes(), Limits::default(), Wanted::Stacks).unwrap()
}

fn data_of(name: &str) -> (Story, DeviceData) {
    let (snapshot, initial) = load(name);
    let story = Story::new(&snapshot, &initial);
    let data = DeviceData::new(0, &story, &snapshot.stacks, &Owners::new(&snapshot.stacks));
    (story, data)
}

/// The sizes of blocks follow from the file alone: they are those that the allocator gives when it runs the history
/// again.
#[test]
fn a_story_holds_what_the_replay_holds() {
    for name in TRACES {
        let (snapshot, initial) = load(name);
        let story = Story::new(&snapshot, &initial);
        let levels = story.levels();
        let recording = Recording::new(&snapshot, &initial);
        let at = |of: fn(&Level) -> u64| of(&levels[peak(&levels, of)]);
        assert_eq!(at(|level| level.reserved), recording.peak_reserved_bytes, "{name}");
        let terms = Terms::new(&snapshot, None, None, Mode::Comparison);
        let replay = terms.replay(&snapshot, &initial, &Bar::Own).unwrap().replay;
        assert_eq!(at(|level| level.allocated), replay.peaks.allocated_bytes, "{name}");
        assert!(at(|level| level.live) <= replay.peaks.requested_bytes, "{name}");
    }
}

/// At the last moment a story holds what the file shows.
#[test]
fn a_story_ends_as_the_file_does() {
    for name in TRACES {
        let (snapshot, initial) = load(name);
        // Without the file's sizes, so that those are not just copied.
        let mut blind = snapshot.clone();
        blind.segments.clear();
        let story = Story::new(&blind, &initial);
        let end = |to: usize| to == story.events + 1;
        let mut told: Vec<_> =
            story.blocks.iter().filter(|b| end(b.to)).map(|b| (b.address, b.size)).collect();
        told.sort_unstable();
        let shown = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let shown = shown.filter(|block| block.state != BlockState::Inactive);
        let mut shown: Vec<_> = shown.map(|block| (block.address, block.size)).collect();
        shown.sort_unstable();
        assert_eq!(told, shown, "{name}");
        let mut ranges: Vec<_> =
            story.segments.iter().filter(|s| end(s.to)).map(|s| (s.address, s.size)).collect();
        ranges.sort_unstable();
        let segments: Vec<_> = snapshot.segments.iter().map(|s| (s.address, s.total_size)).collect();
        assert_eq!(ranges, segments, "{name}");
    }
}

#[test]
fn ranges_are_cut_where_memory_is_unmapped() {
    let snapshot = read_json(
        r#"{"segments": [], "device_traces": [[
            {"action": "segment_map", "addr": 40960, "size": 40960, "stream": 3},
            {"action": "alloc", "addr": 40960, "size": 100, "stream": 3},
            {"action": "segment_map", "addr": 81920, "size": 40960, "stream": 3},
            {"action": "alloc", "addr": 49152, "size": 65536, "stream": 3},
            {"action": "free_requested", "addr": 49152, "size": 65536, "stream": 3},
            {"action": "oom", "device_free": 7, "size": 1024, "stream": 3},
            {"action": "free_completed", "addr": 49152, "size": 65536, "stream": 3},
            {"action": "segment_unmap", "addr": 65536, "size": 32768, "stream": 3},
            {"action": "free_requested", "addr": 40960, "size": 100, "stream": 3},
            {"action": "free_completed", "addr": 40960, "size": 100, "stream": 3},
            {"action": "segment_unmap", "addr": 40960, "size": 24576, "stream": 3},
            {"action": "segment_unmap", "addr": 98304, "size": 24576, "stream": 3}
        ]]}"#,
    );
    let initial = initial_state(&snapshot, 0).unwrap();
    let story = Story::new(&snapshot, &initial);
    let spans = |of: &dyn Fn(usize) -> bool| {
        let there = story.segments.iter().filter(|s| s.from < s.to && of(s.from) && !of(s.to));
        let mut there: Vec<_> = there.map(|s| (s.address, s.size)).collect();
        there.sort_unstable();
        there
    };
    assert_eq!(spans(&|moment| moment <= 4), [(40960, 40960), (81920, 40960)]);
    assert_eq!(spans(&|moment| moment <= 8), [(40960, 24576), (98304, 24576)]);
    assert_eq!(story.refusals, [Refusal { event: 5, size: 1024, device_free: 7 }]);
    let across = story.blocks[1];
    assert_eq!((across.from, across.given_back, across.to, across.size), (4, 5, 7, 65536));
    let reserved: Vec<_> = story.levels().iter().map(|level| level.reserved / 8192).collect();
    assert_eq!(reserved, [0, 5, 5, 10, 10, 10, 10, 10, 6, 6, 6, 3, 0]);
}

#[test]
fn owners_are_what_a_reader_looks_for() {
    let mut lines = Vec::new();
    for name in TRACES {
        let (snapshot, _) = load(name);
        let mut owners = Owners::new(&snapshot.stacks).all;
        owners.sort();
        let category = |wanted| owners.iter().filter(|owner| owner.category == wanted).count();
        let counts: Vec<_> = Category::ALL.iter().map(|c| category(*c).to_string()).collect();
        lines.push(format!("{name}: {} of {} stacks", counts.join(" + "), snapshot.stacks.len()));
        let some = owners.iter().filter(|owner| !owner.operator.is_empty()).step_by(29);
        lines.extend(
            some.map(|owner| format!("  {} | {} | {:?}", owner.place, owner.operator, owner.category)),
        );
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn numbers_take_few_bytes_and_come_back() {
    let mut columns = Columns::default();
    for number in [0, 127, 128, 300, u64::MAX] {
        columns.number(number);
    }
    for number in [0, -1, 1, i64::MIN, i64::MAX] {
        columns.signed(number);
    }
    assert_eq!(columns.to_base64(), "AH+AAawC////////////AQABAv///////////wH+//////////8B");
    let one = |number| {
        let mut columns = Columns::default();
        columns.number(number);
        columns.to_base64()
    };
    assert_eq!([one(1), one(200), one(70_000)], ["AQ==", "yAE=", "8KIE"]);
    assert_eq!(Columns::default().to_base64(), "");
}

/// What the page's own script makes of the data.
const SCRIPT: &str = r#"
const { Model } = require(process.argv[1]);
const data = JSON.parse(require('fs').readFileSync(0));
const model = new Model(data);
const moments = [0, 1, model.events >> 2, model.events >> 1, model.peak(), model.events];
for (const m of moments) {
  const state = model.at(m), waste = model.waste(state);
  const sum = state.held.reduce((sum, b) => sum + (m < model.blocks.given[b] ? model.blocks.size[b] : 0), 0);
  const parts = waste.requested + waste.rounding + waste.waiting + waste.pinned + waste.idle;
  console.log(m, model.live[m], model.allocated[m], model.reserved[m], sum, parts, waste.reserved);
}
"#;

#[test]
#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
fn the_pages_script_reads_what_is_written() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/page/model.js");
    for name in TRACES {
        let (story, data) = data_of(name);
        let node = Command::new("node")
            .args(["-e", SCRIPT, model])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut node) = node else {
            println!("skipped: no node");
            return;
        };
        let mut stdin = node.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, serde_json::to_string(&data).unwrap().as_bytes()).unwrap();
        drop(stdin);
        let output = node.wait_with_output().unwrap();
        assert!(output.status.success());
        let levels = story.levels();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 6);
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let &[moment, live, allocated, reserved, sum, parts, whole] = numbers.as_slice() else {
                panic!()
            };
            let level = levels[moment as usize];
            assert_eq!([live, allocated, reserved], [level.live, level.allocated, level.reserved], "{name}");
            assert_eq!((sum, parts, whole), (allocated, reserved, reserved), "{name} at {moment}");
        }
    }
}

#[test]
fn what_a_file_says_does_not_run() {
    let snapshot = read_json(
        r#"{"segments": [{"address": 4096, "total_size": 2097152, "stream": 18446744073709551615, "blocks": [
                {"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated"}]}],
            "device_traces": [[
            {"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 18446744073709551615},
            {"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "frames": [
                {"filename": "</script><script>alert(1)</script>.py", "name": "<!--", "line": 1}]}
        ]]}"#,
    );
    let initial = initial_state(&snapshot, 0).unwrap();
    let story = Story::new(&snapshot, &initial);
    let data = DeviceData::new(0, &story, &snapshot.stacks, &Owners::new(&snapshot.stacks));
    let page = page(&PageData { file: "<b>{{data}}".into(), devices: vec![data] });
    assert!(!page.contains("alert(1)</script>") && !page.contains("<!--"), "{page}");
    assert!(page.contains("<title>&lt;b&gt;{{data}} - memory report</title>"));
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn a_page_fetches_nothing_and_is_always_the_same() {
    let make = || {
        let (_, data) = data_of("cross-entropy-eager");
        page(&PageData { file: "run".into(), devices: vec![data] })
    };
    let first = make();
    assert_eq!(first, make());
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "{{"] {
        assert!(!first.contains(outside), "{outside}");
    }
}

fn small() -> Story {
    let block = |from, to, size| BlockSpan {
        from,
        given_back: to,
        to,
        address: 0,
        size,
        requested: size,
        stream: 0,
        stack: None,
    };
    let refusals = vec![Refusal { event: 1, size: 9, device_free: 0 }];
    Story { blocks: vec![block(1, 4, 512), block(2, 3, 1536)], events: 3, refusals, ..Story::default() }
}

#[test]
fn the_timeline_as_svg() {
    let text = svg(&Picture::new("a <run> & more", &small()));
    insta::assert_snapshot!(text);
    // One for each thing that is drawn, however many events there are.
    let (story, _) = data_of("transformer-xl-train-warm");
    assert!(svg(&Picture::new("x", &story)).len() < 40_000);
    assert!(svg(&Picture::new("nothing", &Story::default())).ends_with("</svg>\n"));
}

#[test]
fn the_timeline_as_png() {
    let file = png(&Picture::new("run.pickle, device 0", &small()));
    assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut rest = &file[8..];
    let mut names = Vec::new();
    let mut packed = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let mut crc = flate2::Crc::new();
        crc.update(&rest[4..8 + length]);
        assert_eq!(crc.sum().to_be_bytes(), rest[8 + length..12 + length]);
        names.push(String::from_utf8(rest[4..8].to_vec()).unwrap());
        if names.last().unwrap() == "IDAT" {
            packed = rest[8..8 + length].to_vec();
        }
        rest = &rest[12 + length..];
    }
    assert_eq!(names, ["IHDR", "IDAT", "IEND"]);
    let mut pixels = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut pixels).unwrap();
    assert_eq!(pixels.len(), 800 * (1 + 3 * 2080));
    let pixel = |x: usize, y: usize| &pixels[y * (1 + 3 * 2080) + 1 + 3 * x..][..3];
    assert_eq!(pixel(0, 0), [0xff; 3]);
    // Of four moments: nothing, 512, 2,048 and 512 bytes.
    assert_eq!(pixel(400, 700), [0xff; 3]);
    assert_eq!(pixel(800, 700), [0x00, 0x72, 0xb2]);
    assert_eq!(pixel(1200, 300), [0x00, 0x72, 0xb2]);
    assert_eq!(pixel(1800, 300), [0xff; 3]);
    assert_eq!(file, png(&Picture::new("run.pickle, device 0", &small())));
}
