//! Reading real files, and files of older versions.

use std::path::PathBuf;

use super::*;

/// The traces in the repository.
pub(crate) const TRACES: [&str; 10] = [
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

pub(crate) fn trace_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/traces/{name}.pickle.gz"))
}

pub(crate) fn load(name: &str) -> Snapshot {
    read_file(&trace_file(name), Limits::default(), Wanted::Memory).unwrap()
}

fn read_text(json: &str) -> Result<Snapshot, String> {
    read_snapshot(json.as_bytes(), Limits::default(), Wanted::Memory).map_err(|error| error.to_string())
}

#[test]
fn the_real_traces_are_read() {
    let mut table = String::new();
    for name in TRACES {
        let snapshot = load(name);
        let blocks: usize = snapshot.segments.iter().map(|segment| segment.blocks.len()).sum();
        let events: usize = snapshot.device_traces.iter().map(Vec::len).sum();
        let reserved: u64 = snapshot.segments.iter().map(|segment| segment.total_size).sum();
        let expandable = snapshot.allocator_settings.unwrap().expandable_segments;
        table += &format!("{name}: {events} events, {} segments, ", snapshot.segments.len());
        table += &format!("{blocks} blocks, {reserved} bytes, expandable {expandable}\n");
    }
    insta::assert_snapshot!(table, @"
    cross-entropy-compiled: 21 events, 5 segments, 7 blocks, 1050673152 bytes, expandable false
    cross-entropy-eager: 21 events, 5 segments, 7 blocks, 1050673152 bytes, expandable false
    opt-zeroth-order-finetune: 23105 events, 61 segments, 468 blocks, 1897922560 bytes, expandable false
    transformer-2.7b-forward: 7062 events, 245 segments, 379 blocks, 14506000384 bytes, expandable false
    transformer-train-compiled-warm: 6486 events, 96 segments, 550 blocks, 4238344192 bytes, expandable false
    transformer-train-fp32: 11477 events, 80 segments, 217 blocks, 1063256064 bytes, expandable false
    transformer-train-mixed: 12976 events, 88 segments, 229 blocks, 1205862400 bytes, expandable false
    transformer-xl-expandable-warm: 5112 events, 2 segments, 297 blocks, 43132125184 bytes, expandable true
    transformer-xl-fullstep-bf16-warm: 18864 events, 1434 segments, 2002 blocks, 78160855040 bytes, expandable false
    transformer-xl-train-warm: 27358 events, 1185 segments, 1591 blocks, 67071115264 bytes, expandable false
    ");
}

/// A snapshot with one segment and one event, in which a test changes something.
const SMALL: &str = r#"{
  "segments": [{"device": 0, "address": 4096, "total_size": 2097152, "stream": 7, "segment_type": "small",
    "segment_pool_id": [0, 1], "is_expandable": false, "frames": [{"x": [[[]]]}],
    "blocks": [{"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated"},
               {"address": 4608, "size": 2096640, "requested_size": 0, "state": "inactive"}]}],
  "device_traces": [[{"action": "alloc", "addr": 4096, "size": 100, "stream": 7, "time_us": 5, "pool_id": [0, 1]},
                     {"action": "oom", "device_free": 77, "size": 1024, "stream": 0},
                     {"action": "snapshot", "addr": 0, "size": 512, "stream": 0}]],
  "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "a:b", "max_split_size": 20971520,
    "garbage_collection_threshold": 0.5, "expandable_segments": false,
    "roundup_power2_divisions": {"1": 0, "256": 4, "32768": 2}}}"#;

#[test]
fn json_is_read_like_a_pickle() {
    let snapshot = read_text(SMALL).unwrap();
    insta::assert_debug_snapshot!(snapshot, @r#"
    Snapshot {
        segments: [
            Segment {
                device: 0,
                address: 4096,
                total_size: 2097152,
                stream: 7,
                is_small: true,
                pool_id: (
                    0,
                    1,
                ),
                is_expandable: false,
                blocks: [
                    Block {
                        address: 4096,
                        size: 512,
                        requested_size: 100,
                        state: Allocated,
                        stack: None,
                    },
                    Block {
                        address: 4608,
                        size: 2096640,
                        requested_size: 0,
                        state: Inactive,
                        stack: None,
                    },
                ],
            },
        ],
        device_traces: [
            [
                Event {
                    action: Alloc,
                    address: 4096,
                    size: 100,
                    stream: 7,
                    time_us: Some(
                        5,
                    ),
                    pool_id: Some(
                        (
                            0,
                            1,
                        ),
                    ),
                    stack: None,
                },
                Event {
                    action: Oom,
                    address: 77,
                    size: 1024,
                    stream: 0,
                    time_us: None,
                    pool_id: None,
                    stack: None,
                },
                Event {
                    action: Snapshot,
                    address: 0,
                    size: 512,
                    stream: 0,
                    time_us: None,
                    pool_id: None,
                    stack: None,
                },
            ],
        ],
        allocator_settings: Some(
            AllocatorSettings {
                conf: "a:b",
                max_split_size: Some(
                    20971520,
                ),
                garbage_collection_threshold: 0.5,
                expandable_segments: false,
                roundup_power2_divisions: [
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    4,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    2,
                ],
            },
        ),
        stacks: 0 stacks,
    }
    "#);
    assert_eq!(read_text(&format!("\u{feff}  {SMALL}\n")).unwrap(), snapshot);
}

#[test]
fn files_of_older_versions_have_their_defaults() {
    // Before 2.0: blocks without addresses, with a history, and no device traces.
    let snapshot = read_text(
        r#"{"segments": [{"device": 1, "address": 4096, "total_size": 20971520, "blocks": [
             {"size": 1024, "state": "active_allocated", "history": [{"addr": 4096, "real_size": 1000, "frames": []}]},
             {"size": 2048, "state": "active_awaiting_free"},
             {"size": 20968448, "state": "inactive"}]}]}"#,
    )
    .unwrap();
    let segment = &snapshot.segments[0];
    assert!(!segment.is_small && !segment.is_expandable && segment.pool_id == (0, 0) && segment.stream == 0);
    let blocks: Vec<_> = segment.blocks.iter().map(|b| (b.address, b.size, b.requested_size)).collect();
    assert_eq!(blocks, [(4096, 1024, 1000), (5120, 2048, 2048), (7168, 20_968_448, 0)]);
    assert_eq!((snapshot.allocator_settings.clone(), snapshot.device_count()), (None, 2));
    assert!(snapshot.trace(1).is_empty());
    // `_snapshot()` was the list of segments once.
    let list = read_text(r#"[{"address": 4096, "total_size": 512, "blocks": []}]"#).unwrap();
    assert_eq!(list.segments.len(), 1);
}

#[test]
fn what_a_file_gets_wrong_is_named_with_its_place() {
    let changes = [
        (r#""segments": [{"#, r#""segment": [{"#),
        (r#""device": 0"#, r#""device": 1000"#),
        (r#""device": 0"#, r#""device": -1"#),
        (r#""address": 4096, "t"#, r#""address": -4096, "t"#),
        (r#""address": 4096, "t"#, r#""address": 18446744073709551615, "t"#),
        (r#""address": 4096, "t"#, r#""address": 18446744073709551616, "t"#),
        (r#""address": 4096, "t"#, r#""address": "4096", "t"#),
        (r#""address": 4096, "t"#, r#""t"#),
        (r#""total_size": 2097152"#, r#""total_size": 0"#),
        (r#""total_size": 2097152"#, r#""total_size": 2097151"#),
        (r#""total_size": 2097152"#, r#""total_size": 2097152.5"#),
        (r#""segment_type": "small""#, r#""segment_type": "tiny""#),
        (r#""segment_pool_id": [0, 1]"#, r#""segment_pool_id": [0, 1, 2]"#),
        (r#""is_expandable": false"#, r#""is_expandable": 0"#),
        (r#""blocks": ["#, r#""blocks": 5, "x": ["#),
        (r#""blocks": ["#, r#""blocks": [[], "#),
        (r#""size": 512, "r"#, r#""size": 0, "r"#),
        (r#""size": 512, "r"#, r#""size": 1024, "r"#),
        (r#""requested_size": 100"#, r#""requested_size": 513"#),
        (r#""active_allocated""#, r#""lost""#),
        (r#""address": 4608"#, r#""address": 4095"#),
        (r#""action": "alloc""#, r#""action": "fly""#),
        (r#""action": "alloc""#, r#""action": "\u001b[2J""#),
        (r#""action": "alloc""#, r#""action": null"#),
        (r#""action": "alloc", "addr": 4096"#, r#""action": "alloc""#),
        (r#""size": 100, "s"#, r#""size": 18446744073709551615, "s"#),
        (r#""time_us": 5"#, r#""time_us": 5.5"#),
        (r#""device_traces": [["#, r#""device_traces": [5, ["#),
        (r#""garbage_collection_threshold": 0.5"#, r#""garbage_collection_threshold": 1.5"#),
        (r#""max_split_size": 20971520"#, r#""max_split_size": -2"#),
        (r#""256": 4"#, r#""257": 4"#),
        (r#""256": 4"#, r#""256": 3"#),
        (r#""256": 4"#, r#""a thousand": 4"#),
    ];
    let mut texts = String::new();
    for (from, to) in changes {
        assert!(SMALL.contains(from), "{from}");
        texts += &read_text(&SMALL.replacen(from, to, 1)).unwrap_err();
        texts.push('\n');
    }
    insta::assert_snapshot!(texts, @r#"
    the file: has no `segments`: this is not a memory snapshot
    segments[0].device: is 1000; devices are numbered below 128
    segments[0].device: is negative: -1
    segments[0].address: is negative: -4096
    segments[0]: 2097152 bytes at 0xffffffffffffffff end beyond the address space
    segments[0].address: is a floating-point number, not an integer
    segments[0].address: is a string, not an integer
    segments[0].address: is missing
    segments[0].total_size: is 0
    segments[0].blocks[1]: 2096640 bytes at 0x1200 are not inside their segment, 0x1000 to 0x200fff
    segments[0].total_size: is a floating-point number, not an integer
    segments[0].segment_type: is "tiny", neither "small" nor "large"
    segments[0].segment_pool_id: has 3 numbers, not two
    segments[0].is_expandable: is an integer, not a boolean
    segments[0].blocks: is an integer, not a list
    segments[0].blocks[0]: is a list, not a dict
    segments[0].blocks[0].size: is 0
    segments[0].blocks[1]: overlaps the block before it
    segments[0].blocks[0].requested_size: is 513, more than the 512 bytes of the block
    segments[0].blocks[0].state: is "lost", which is no state of a block
    segments[0].blocks[1]: 2096640 bytes at 0xfff are not inside their segment, 0x1000 to 0x201000
    device_traces[0][0].action: is "fly", which is no action of the allocator
    device_traces[0][0].action: is "\u{1b}[2J", which is no action of the allocator
    device_traces[0][0].action: is missing
    device_traces[0][0].addr: is missing
    device_traces[0][0]: 18446744073709551615 bytes at 0x1000 end beyond the address space
    device_traces[0][0].time_us: is a floating-point number, not an integer
    device_traces[0]: is an integer, not a list
    allocator_settings.garbage_collection_threshold: is 1.5, not in 0 to 1
    allocator_settings.max_split_size: is negative: -2
    allocator_settings.roundup_power2_divisions.257: is not a power of two up to 32768
    allocator_settings.roundup_power2_divisions.256: is 3, not a power of two
    allocator_settings.roundup_power2_divisions: has the key "a thousand", which is no size in MiB
    "#);
}

#[test]
fn segments_may_not_overlap() {
    let segment = |device, address| {
        format!(r#"{{"device": {device}, "address": {address}, "total_size": 1024, "blocks": []}}"#)
    };
    let read = |second: String| read_text(&format!("[{}, {second}]", segment(0, 4096)));
    assert_eq!(read(segment(0, 5000)).unwrap_err(), "segments[1]: overlaps segments[0]");
    assert_eq!(read(segment(0, 3073)).unwrap_err(), "segments[0]: overlaps segments[1]");
    assert_eq!(read(segment(0, 4096)).unwrap_err(), "segments[1]: overlaps segments[0]");
    let apart = read(segment(0, 3072)).unwrap();
    assert_eq!(apart.segments.iter().map(|segment| segment.address).collect::<Vec<_>>(), [3072, 4096]);
    assert!(read(segment(1, 4096)).is_ok());
}

#[test]
fn lists_that_a_file_shares_cannot_multiply() {
    // A thousand traces, each the same list of a thousand events, in a few kilobytes.
    let mut pickle =
        b"}(\x8c\x08segments]\x8c\x0ddevice_traces](}(\x8c\x06action\x8c\x08snapshotu\x94".to_vec();
    pickle.splice(0..0, *b"\x80\x04");
    // The event is memo entry 0; its list, 1.
    pickle.extend([&b"0]\x94("[..], &b"h\x00".repeat(1000), b"e0"].concat());
    pickle.extend([&b"h\x01".repeat(100)[..], b"eu."].concat());
    let limits = Limits { memory_bytes: 1_000_000, ..Limits::default() };
    let error = read_snapshot(&pickle, limits, Wanted::Memory).unwrap_err();
    assert!(
        error.to_string().ends_with("the file shares lists, and they need too much memory apart"),
        "{error}"
    );
    let all = read_snapshot(&pickle, Limits::default(), Wanted::Memory).unwrap();
    assert_eq!(all.device_traces.iter().map(Vec::len).sum::<usize>(), 100_000);
}

#[test]
fn sizes_round_as_the_allocator_rounds() {
    let mut settings = AllocatorSettings::default();
    let round = |settings: &AllocatorSettings, sizes: &[u64]| -> Vec<Option<u64>> {
        sizes.iter().map(|&size| settings.round_size(size)).collect()
    };
    assert_eq!(round(&settings, &[0, 1, 512, 513, 1 << 40]), [512, 512, 512, 1024, 1 << 40].map(Some));
    assert_eq!(round(&settings, &[u64::MAX]), [None]);
    settings.roundup_power2_divisions = [4; 16];
    // Up to 512 times the divisions, only by 512.
    assert_eq!(round(&settings, &[1200, 2049, 2560, 2561, 4096]), [1536, 2560, 2560, 3072, 4096].map(Some));
    settings.roundup_power2_divisions = [1 << 63; 16];
    assert_eq!(round(&settings, &[5000]), [None]);
    assert_eq!(
        [1, 1 << 20, 1 << 21, 1 << 35, u64::MAX].map(AllocatorSettings::division_index),
        [0, 0, 1, 15, 15]
    );
}

#[test]
fn a_decompression_bomb_is_given_up() {
    use std::io::Write;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
    let limits = Limits { input_bytes: 100_000, ..Limits::default() };
    let error = read_snapshot(&bomb.finish().unwrap(), limits, Wanted::Memory).unwrap_err().to_string();
    assert!(error.ends_with("more than the 100000 bytes that are read at most"), "{error}");
}

/// Reads and reconstructs; whatever the bytes are, it must come back.
fn survive(bytes: &[u8]) -> bool {
    let limits = Limits { input_bytes: 1 << 22, memory_bytes: 1 << 22, depth: 64 };
    let Ok(snapshot) = read_snapshot(bytes, limits, Wanted::Memory) else { return false };
    (0..snapshot.device_count()).all(|device| initial_state(&snapshot, device).is_ok())
}

#[test]
fn mutated_files_are_read_or_refused() {
    use std::io::Read;
    let mut whole = Vec::new();
    let file = std::fs::File::open(trace_file("cross-entropy-eager")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_end(&mut whole).unwrap();
    let json = SMALL.as_bytes();
    assert!(survive(&whole) && survive(json));
    let mut refused = 0;
    for seed in 0..2000u64 {
        let mut random = seed;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound
        };
        let mut bytes = if seed % 3 == 0 { json.to_vec() } else { whole.clone() };
        for _ in 0..1 + below(4) {
            let at = below(bytes.len());
            match below(5) {
                0 => bytes[at] = below(256) as u8,
                1 => bytes[at] ^= 1 << below(8),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, below(256) as u8),
                _ => {
                    let end = (at + below(64)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        refused += usize::from(!survive(&bytes));
    }
    assert!(refused > 500, "only {refused} were refused: the mutations do nothing");
}
