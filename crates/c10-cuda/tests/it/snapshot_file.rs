//! Snapshots as files: PyTorch's pickle, Chrome's trace events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_cuda::alloc::{Context, ContextProvider, Contexts, Frame, History, RecordContext, Snapshot};

use crate::rig::{MIB, Rig};
use crate::torch;

/// One of two stacks, in turn.
#[derive(Debug)]
struct InTurn {
    stacks: [Context; 2],
    calls: AtomicU64,
}

impl ContextProvider for InTurn {
    fn gather(&self) -> Option<Context> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) as usize;
        Some(self.stacks[call % 2].clone())
    }
}

fn contexts() -> Contexts {
    let frame = |name: &str, line| Frame { filename: "train.py".into(), name: name.into(), line };
    let stacks = [
        Context::new(vec![frame("forward", 12), frame("<module>", 300)]),
        Context::new(vec![frame("quote\" back\\slash\u{1}", 70_000)]),
    ];
    Contexts { level: RecordContext::All, provider: Arc::new(InTurn { stacks, calls: AtomicU64::new(0) }) }
}

/// A history with something of each kind.
fn snapshot() -> Snapshot {
    let rig = Rig::with(64 * MIB, "max_split_size_mb:40,roundup_power2_divisions:[256:2,>:1]");
    let stream = rig.stream();
    let before = rig.allocate(300);
    let history = History { max_entries: 100, contexts: Some(contexts()), ..History::default() };
    rig.cuda.record_history(Some(history));
    rig.cuda.annotate("step 1", 0).unwrap();
    rig.cuda.set_user_metadata(Some("first"), 0).unwrap();
    let large = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&large, stream).unwrap();
    let held = [rig.allocate(1000), rig.cuda.allocate_on(30 * MIB, stream).unwrap()];
    drop(before);
    drop(large);
    rig.cuda.allocate(100 * MIB).unwrap_err();
    rig.cuda.snapshot(false);
    let snapshot = rig.cuda.snapshot(true);
    drop(held);
    snapshot
}

fn pickle(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.write_pickle(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_pickle_is_the_one_that_pytorch_was_seen_to_read() {
    let bytes = pickle(&snapshot());
    let golden = include_bytes!("golden/snapshot.pickle");
    if bytes != golden {
        let file = std::env::temp_dir().join("snapshot.pickle");
        std::fs::write(&file, &bytes).unwrap();
        panic!("differs from tests/it/golden/snapshot.pickle; the new one is {}", file.display());
    }
    assert_eq!(bytes, pickle(&snapshot()), "the same state gives the same bytes");
}

/// The keys of everything, in order, and what PyTorch's tools make of the file.
const READ: &str = r#"
import pickle, pickletools, sys
from torch.cuda import _memory_viz as viz
data = sys.stdin.buffer.read()
known = set('''PROTO STOP MARK MEMOIZE BINGET LONG_BINGET NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE EMPTY_LIST APPENDS EMPTY_DICT SETITEMS TUPLE2'''.split())
unknown = {op.name for op, _, _ in pickletools.genops(data)} - known
assert not unknown, unknown
s = pickle.loads(data)
print(*s)
print(*s['allocator_settings'].items(), sep='\n')
for segment in s['segments']:
    print({k: v for k, v in segment.items() if k not in ('blocks', 'frames')}, len(segment['frames']))
    for block in segment['blocks']:
        print('   ', {k: v for k, v in block.items() if k != 'frames'}, [f['name'] for f in block['frames']])
for entry in s['device_traces'][0]:
    print({k: v for k, v in entry.items() if k != 'frames'}, [f['line'] for f in entry['frames']])
same = [e['frames'] for e in s['device_traces'][0] if len(e['frames']) == 2]
assert all(frames is same[0] for frames in same), 'each stack is there once'
print(viz.segsum(s))
print(viz.trace(s))
echo = lambda lines: lines
print(viz.segments(s, format_flamegraph=echo))
print(viz.memory(s, format_flamegraph=echo))
print(viz.compare(s['segments'], s['segments'][:1], format_flamegraph=echo))
assert '<script' in viz.trace_plot(s) and '<script' in viz.segment_plot(s)
"#;

#[test]
fn pytorchs_own_tools_open_the_pickle() {
    let Some(read) = torch::run(READ, &[], include_bytes!("golden/snapshot.pickle")) else { return };
    insta::assert_snapshot!(read);
}

#[test]
fn large_lists_and_long_texts_arrive() {
    let rig = Rig::new(1 << 40);
    let history = History { max_entries: usize::MAX, ..History::default() };
    rig.cuda.record_history(Some(history));
    rig.cuda.set_user_metadata(Some(&"x".repeat(300)), 0).unwrap();
    let held: Vec<_> = (0..2500).map(|_| rig.allocate(513)).collect();
    drop(held);
    let count = "import pickle, sys\n\
                 s = pickle.load(sys.stdin.buffer)\n\
                 t = s['device_traces'][0]\n\
                 print(len(t), len(t[7]['user_metadata']), t[9]['addr'], t[9]['size'])";
    let Some(read) = torch::run(count, &[], &pickle(&rig.cuda.snapshot(true))) else { return };
    assert_eq!(read.trim(), format!("7502 300 {} 513", (1_u64 << 52) + 8 * 1024));
}

#[test]
fn a_state_only_snapshot_grows_with_the_blocks_alone() {
    let rig = Rig::new(1 << 30);
    let history = History { max_entries: usize::MAX, contexts: Some(contexts()), ..History::default() };
    rig.cuda.record_history(Some(history));
    let held: Vec<_> = (0..10).map(|_| rig.allocate(512)).collect();
    let before = pickle(&rig.cuda.snapshot(false)).len();
    for _ in 0..20_000 {
        drop(rig.allocate(512));
    }
    assert_eq!(rig.cuda.snapshot(false).device_traces, [vec![]]);
    let after = pickle(&rig.cuda.snapshot(false)).len();
    assert!(after <= before + 16, "{before} bytes, and {after} after a long history");
    assert!(pickle(&rig.cuda.snapshot(true)).len() > 1_000_000);
    drop(held);
}

#[test]
fn chromes_trace_events() {
    let mut json = Vec::new();
    snapshot().write_chrome_trace(&mut json).unwrap();
    insta::assert_snapshot!(String::from_utf8(json).unwrap());
    let mut empty = Vec::new();
    let rig = Rig::new(MIB);
    rig.cuda.snapshot(true).write_chrome_trace(&mut empty).unwrap();
    let parse = "import json, sys; print(len(json.load(sys.stdin)['traceEvents']))";
    if let Some(count) = torch::run(parse, &[], &empty) {
        assert_eq!(count, "1\n");
    }
}
