//! The state before a history, against real files and against a model that knows it.

mod model;

use std::collections::BTreeMap;

use super::*;
use crate::snapshot::read::{Wanted, read_snapshot};
use crate::snapshot::segment::{Block, Segment};
use crate::snapshot::tests::{TRACES, load};
use crate::snapshot::{Event, Limits};
use model::Model;

/// Plays a history forwards, as naively as it can be done.
struct Forward {
    /// First byte to end.
    segments: BTreeMap<u64, u64>,
    /// First byte to requested size and state.
    live: BTreeMap<u64, (u64, BlockState)>,
}

impl Forward {
    fn from_start(state: &InitialState) -> Self {
        let segments = state.segments.iter().map(|s| (s.address, s.address + s.total_size)).collect();
        let live = state.live().map(|b| (b.address, (b.requested_size, b.state))).collect();
        Self { segments, live }
    }

    fn apply(&mut self, event: &Event) {
        let (address, end) = (event.address, event.address + event.size);
        match event.action {
            Action::Alloc => {
                let (_, &segment_end) = self.segments.range(..=address).next_back().unwrap();
                assert!(end <= segment_end, "{event:?} outside its segment");
                if let Some((&before, &(size, _))) = self.live.range(..address).next_back() {
                    assert!(before + size <= address, "{event:?} overlaps {before:#x}");
                }
                assert!(self.live.range(address..end).next().is_none(), "{event:?} overlaps");
                self.live.insert(address, (event.size, BlockState::Allocated));
            }
            Action::FreeRequested => {
                let block = self.live.get_mut(&address).unwrap();
                assert_eq!(*block, (event.size, BlockState::Allocated));
                block.1 = BlockState::PendingFree;
            }
            Action::FreeCompleted => {
                assert_eq!(self.live.remove(&address), Some((event.size, BlockState::PendingFree)));
            }
            Action::SegmentAlloc => assert!(self.segments.insert(address, end).is_none()),
            Action::SegmentFree => assert_eq!(self.segments.remove(&address), Some(end)),
            Action::SegmentMap | Action::SegmentUnmap => unreachable!("no file in the repository has one"),
            Action::Snapshot | Action::Oom | Action::Annotate => {}
        }
    }
}

#[test]
fn played_forwards_the_real_histories_end_where_their_files_say() {
    let mut table = String::new();
    for name in TRACES {
        let snapshot = load(name);
        for device in 0..snapshot.device_count() {
            let start = initial_state(&snapshot, device).unwrap();
            check_tiling(&start);
            let mut forward = Forward::from_start(&start);
            snapshot.trace(device).iter().for_each(|event| forward.apply(event));
            let segments: BTreeMap<_, _> =
                snapshot.segments_of(device).map(|s| (s.address, s.end())).collect();
            assert_eq!(forward.segments, segments, "{name}");
            let blocks = snapshot.segments_of(device).flat_map(|s| &s.blocks);
            let live = blocks.filter(|block| block.state != BlockState::Inactive);
            let live: BTreeMap<_, _> = live.map(|b| (b.address, (b.requested_size, b.state))).collect();
            assert_eq!(forward.live, live, "{name}");
            if device == 0 {
                let (live, open) = (start.live().count(), start.live().filter(|b| !b.size_is_known).count());
                let segments = start.segments.len();
                table += &format!("{name}: {segments} segments, {live} live blocks, {open} of open size\n");
            }
        }
    }
    insta::assert_snapshot!(table, @"
    cross-entropy-compiled: 0 segments, 0 live blocks, 0 of open size
    cross-entropy-eager: 0 segments, 0 live blocks, 0 of open size
    opt-zeroth-order-finetune: 0 segments, 0 live blocks, 0 of open size
    transformer-2.7b-forward: 0 segments, 0 live blocks, 0 of open size
    transformer-train-compiled-warm: 96 segments, 447 live blocks, 15 of open size
    transformer-train-fp32: 0 segments, 0 live blocks, 0 of open size
    transformer-train-mixed: 0 segments, 0 live blocks, 0 of open size
    transformer-xl-expandable-warm: 2 segments, 294 live blocks, 0 of open size
    transformer-xl-fullstep-bf16-warm: 1434 segments, 1169 live blocks, 46 of open size
    transformer-xl-train-warm: 507 segments, 1068 live blocks, 47 of open size
    ");
}

/// Blocks fill their segments without gap or overlap.
fn check_tiling(state: &InitialState) {
    for segment in &state.segments {
        let mut at = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, at);
            assert!(block.size >= block.requested_size && block.size > 0);
            at += block.size;
        }
        assert_eq!(at, segment.address + segment.total_size);
    }
    assert_eq!(state.starts_empty, state.segments.is_empty());
}

#[test]
fn the_start_of_generated_histories_is_found_again() {
    let (mut open, mut all) = (0, 0);
    for seed in 0..200 {
        let mut model = Model::new(seed);
        model.run(150);
        let cut = model.events.len();
        let truth = model.segments();
        model.run(250);
        let snapshot = Snapshot {
            segments: model.segments(),
            device_traces: vec![model.events[cut..].to_vec()],
            ..Snapshot::default()
        };
        let found = initial_state(&snapshot, 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check_tiling(&found);
        compare(&found, &truth, seed);
        open += found.live().filter(|block| !block.size_is_known).count();
        all += found.live().count();
    }
    assert!(
        all > 2000 && open > 0 && open * 4 < all,
        "{open} of {all} sizes are open: the model has gone stale"
    );
}

#[test]
fn a_whole_generated_history_starts_empty() {
    for seed in 0..50 {
        let mut model = Model::new(seed);
        model.run(300);
        let snapshot = Snapshot {
            segments: model.segments(),
            device_traces: vec![model.events.clone()],
            ..Snapshot::default()
        };
        let found = initial_state(&snapshot, 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(found.starts_empty && found.notes.is_empty(), "seed {seed}: {found:?}");
    }
}

fn compare(found: &InitialState, truth: &[Segment], seed: u64) {
    let about = |s: &Segment| (s.address, s.total_size, s.stream, s.is_small, s.is_expandable);
    let found_segments: Vec<_> = found
        .segments
        .iter()
        .map(|s| (s.address, s.total_size, s.stream, s.is_small, s.is_expandable))
        .collect();
    assert_eq!(found_segments, truth.iter().map(about).collect::<Vec<_>>(), "seed {seed}");
    let live: Vec<&Block> =
        truth.iter().flat_map(|s| &s.blocks).filter(|block| block.state != BlockState::Inactive).collect();
    assert_eq!(found.live().count(), live.len(), "seed {seed}");
    for (found, truth) in found.live().zip(live) {
        let about = format!("seed {seed}: {found:?} against {truth:?}");
        assert_eq!(
            (found.address, found.requested_size, found.state),
            (truth.address, truth.requested_size, truth.state),
            "{about}"
        );
        if found.size_is_known {
            assert_eq!(found.size, truth.size, "{about}");
        } else {
            assert!((found.size..=found.size + (1 << 20)).contains(&truth.size), "{about}");
        }
    }
}

/// What the reader says to a snapshot of one 2 MiB segment at 0x1000_0000 with one live block of 512 bytes, and
/// the given history.
fn refusal(events: &str) -> String {
    let json = format!(
        r#"{{"segments": [{{"device": 0, "address": 268435456, "total_size": 2097152, "stream": 0, "blocks": [
            {{"address": 268435456, "size": 512, "requested_size": 100, "state": "active_allocated"}},
            {{"address": 268435968, "size": 2096640, "state": "inactive"}}]}}],
            "device_traces": [[{events}]]}}"#
    );
    let snapshot = read_snapshot(json.as_bytes(), Limits::default(), Wanted::Memory).unwrap();
    initial_state(&snapshot, 0).unwrap_err().to_string()
}

#[test]
fn events_that_cannot_have_happened_are_refused() {
    let event = |action, address: u64, size: u64| {
        format!(r#"{{"action": "{action}", "addr": {address}, "size": {size}, "stream": 0}}"#)
    };
    let base = 0x1000_0000;
    let texts = [
        refusal(&event("alloc", base + 512, 100)),
        refusal(&event("free_requested", base, 100)),
        refusal(&event("free_completed", base, 100)),
        refusal(&event("free_completed", base + 256, 100)),
        refusal(&event("free_completed", base + 1024, 2 << 20)),
        refusal(&event("free_completed", base + (2 << 20), 512)),
        refusal(&event("free_completed", base - 512, 512)),
        refusal(&event("segment_alloc", base, 2 << 20)),
        refusal(&event("segment_alloc", base, 4 << 20)),
        refusal(&event("segment_alloc", base + 512, 512)),
        refusal(&event("segment_free", base, 2 << 20)),
        refusal(&event("segment_free", base - 512, 1024)),
        refusal(&event("segment_free", base + (4 << 20), 0)),
        refusal(&event("segment_map", base + 1024, 1024)),
        refusal(&event("segment_unmap", base + 1024, 1024)),
        refusal(&[event("alloc", base + 512, 9), event("free_completed", base + 512, 9)].join(",")),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    device_traces[0][0]: allocates 0x10000200, but neither a later free nor the segments at the end know such a block
    device_traces[0][0]: frees 0x10000000, but behind this the block is neither freed nor waiting to be freed
    device_traces[0][0]: frees 100 bytes at 0x10000000, which overlap the live block at 0x10000000
    device_traces[0][0]: frees 0x10000100, inside the live block at 0x10000000
    device_traces[0][0]: frees 2097152 bytes at 0x10000400, which is in no segment at that time
    device_traces[0][0]: frees 512 bytes at 0x10200000, which is in no segment at that time
    device_traces[0][0]: frees 512 bytes at 0xffffe00, which is in no segment at that time
    device_traces[0][0]: obtains memory in which the block at 0x10000000 already lives
    device_traces[0][0]: no segment of 4194304 bytes is at 0x10000000 behind this
    device_traces[0][0]: no segment of 512 bytes is at 0x10000200 behind this
    device_traces[0][0]: gives back memory of the segment at 0x10000000, which is still there behind this
    device_traces[0][0]: gives back memory of the segment at 0x10000000, which is still there behind this
    device_traces[0][0]: gives back nothing
    device_traces[0][0]: no mapped range holds 1024 bytes at 0x10000400 behind this
    device_traces[0][0]: gives back memory of the segment at 0x10000000, which is still there behind this
    device_traces[0][0]: a free of the block at 0x10000200 is missing behind this
    ");
}
