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
    read_file(&trace_file(name), Limits::default()).unwrap()
}

fn read_text(json: &str) -> Result<Snapshot, String> {
    read_snapshot(json.as_bytes(), Limits::default()).map_err(|error| error.to_string())
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
