//! Stacks that a program's provider gathers, and who is told of entries.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use c10_cuda::CachingAllocator;
use c10_cuda::alloc::{
    CompileContext, Context, ContextProvider, Contexts, Frame, GatheredContext, History, RecordContext,
    TraceAction, TraceEntry,
};

use crate::rig::{MIB, Rig};

/// Says of each call which one it was.
#[derive(Debug, Default)]
struct Counting {
    calls: AtomicUsize,
    /// Is used from within, to show that no lock is held.
    allocator: Mutex<Option<CachingAllocator>>,
}

impl ContextProvider for Counting {
    fn gather(&self) -> Option<Context> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(allocator) = &*self.allocator.lock().unwrap() {
            allocator.memory_allocated(0).unwrap();
        }
        let frame = Frame { filename: "train.py".into(), name: format!("call_{call}"), line: 7 };
        Some(Context::new(vec![frame]))
    }
}

fn recording(level: RecordContext, provider: &Arc<Counting>) -> Option<History> {
    let provider: Arc<dyn ContextProvider> = provider.clone();
    let contexts = Some(Contexts { level, provider });
    Some(History { max_entries: 100, clear: true, contexts, ..History::default() })
}

/// `action name-of-frame`, one entry a line.
fn lines(entries: &[TraceEntry]) -> String {
    let line = |entry: &TraceEntry| format!("{} {}", entry.action, name(entry.context.as_ref()));
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn name(context: Option<&Context>) -> String {
    context.map_or("-".into(), |context| context.frames()[0].name.clone())
}

/// What is recorded at a level of: two allocations, a free that waits, an emptied cache.
fn recorded(level: RecordContext) -> (String, usize) {
    let rig = Rig::new(64 * MIB);
    let provider = Arc::new(Counting::default());
    *provider.allocator.lock().unwrap() = Some(rig.cuda.clone());
    rig.cuda.record_history(recording(level, &provider));
    let stream = rig.stream();
    let waits = rig.allocate(100);
    rig.cuda.record_stream(&waits, stream).unwrap();
    drop(waits);
    rig.sim.complete_all();
    drop(rig.allocate(200));
    rig.cuda.empty_cache().unwrap();
    *provider.allocator.lock().unwrap() = None;
    let text = lines(&rig.cuda.snapshot(true).device_traces[0]);
    (text, provider.calls.load(Ordering::Relaxed))
}

#[test]
fn entries_hold_the_callers_stack_or_that_of_the_allocation() {
    let (state, calls) = recorded(RecordContext::State);
    assert_eq!(calls, 2);
    assert!(state.lines().all(|line| line.ends_with(" -")), "entries have none: {state}");
    let (alloc, calls) = recorded(RecordContext::Alloc);
    assert_eq!(calls, 2);
    insta::assert_snapshot!(alloc, @"
    segment_alloc call_0
    alloc call_0
    free_requested call_0
    free_completed call_1
    alloc call_1
    free_requested call_1
    free_completed call_1
    segment_free call_0
    ");
    let (all, calls) = recorded(RecordContext::All);
    assert_eq!(calls, 5);
    insta::assert_snapshot!(all, @"
    segment_alloc call_0
    alloc call_0
    free_requested call_1
    free_completed call_2
    alloc call_2
    free_requested call_3
    free_completed call_3
    segment_free call_4
    ");
}

#[test]
fn a_snapshot_shows_who_holds_what_until_it_is_freed() {
    let rig = Rig::new(64 * MIB);
    let provider = Arc::new(Counting::default());
    let before = rig.allocate(100);
    rig.cuda.record_history(recording(RecordContext::State, &provider));
    let held = rig.allocate(200);
    let gone = rig.allocate(3 * MIB);
    drop(gone);
    let shown = |rig: &Rig| {
        let segments = rig.cuda.snapshot(false).segments;
        let show = |segment: &c10_cuda::alloc::SegmentInfo| {
            let blocks: Vec<_> = segment.blocks.iter().map(|block| name(block.context.as_ref())).collect();
            format!("{}: {}", name(segment.context.as_ref()), blocks.join(" "))
        };
        segments.iter().map(show).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(shown(&rig), "-: - call_0 -\ncall_1: -");
    // What is held keeps its stack when recording stops.
    rig.cuda.record_history(None);
    assert_eq!(shown(&rig), "-: - call_0 -\ncall_1: -");
    drop(held);
    let again = rig.allocate(200);
    assert_eq!(shown(&rig), "-: - - -\ncall_1: -", "nobody is asked any more");
    drop((before, again));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(provider.calls.load(Ordering::Relaxed), 2);
}

#[test]
fn a_panic_of_a_provider_is_no_stack() {
    #[derive(Debug)]
    struct Broken;
    impl ContextProvider for Broken {
        fn gather(&self) -> Option<Context> {
            panic!("a provider's fault")
        }
    }
    let rig = Rig::new(64 * MIB);
    let contexts = Some(Contexts { level: RecordContext::All, provider: Arc::new(Broken) });
    rig.cuda.record_history(Some(History { max_entries: 9, contexts, ..History::default() }));
    drop(rig.allocate(100));
    let entries = &rig.cuda.snapshot(true).device_traces[0];
    assert_eq!(entries.len(), 4);
    assert!(entries.iter().all(|entry| entry.context.is_none()));
}

/// Uses the allocator when it ends.
#[derive(Debug)]
struct UsesIt(CachingAllocator);

impl GatheredContext for UsesIt {
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

impl Drop for UsesIt {
    fn drop(&mut self) {
        self.0.memory_allocated(0).unwrap();
    }
}

#[test]
fn stacks_end_with_no_lock_held() {
    #[derive(Debug)]
    struct Uses(CachingAllocator);
    impl ContextProvider for Uses {
        fn gather(&self) -> Option<Context> {
            Some(Context::new(UsesIt(self.0.clone())))
        }
    }
    let rig = Rig::new(64 * MIB);
    let contexts = Some(Contexts { level: RecordContext::All, provider: Arc::new(Uses(rig.cuda.clone())) });
    // The ring drops the oldest, with their stacks.
    rig.cuda.record_history(Some(History { max_entries: 2, contexts, ..History::default() }));
    for bytes in [100, 3 * MIB, 100] {
        drop(rig.allocate(bytes));
    }
    rig.cuda.allocate(100 * MIB).unwrap_err();
    rig.cuda.record_history(None);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.cuda.memory_reserved(0).unwrap(), 0);
}

#[test]
fn trackers_are_told_of_everything() {
    let rig = Rig::new(64 * MIB);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (cuda, log) = (rig.cuda.clone(), Arc::clone(&seen));
    rig.cuda.attach_trace_tracker(Arc::new(move |entry: &TraceEntry| {
        // No lock is held, and the call is through.
        let allocated = cuda.memory_allocated(0).unwrap();
        log.lock().unwrap().push(format!("{} {} {allocated}", entry.action, entry.size));
    }));
    drop(rig.allocate(100));
    // What a history leaves out they see as well.
    let skip_actions = vec![TraceAction::Alloc];
    rig.cuda.record_history(Some(History { max_entries: 9, skip_actions, ..History::default() }));
    let _held = rig.allocate(200);
    rig.cuda.attach_trace_tracker(Arc::new(|_| panic!("a tracker's fault")));
    rig.cuda.empty_cache().unwrap();
    rig.cuda.allocate(100 * MIB).unwrap_err();
    insta::assert_snapshot!(seen.lock().unwrap().join("\n"), @"
    segment_alloc 2097152 512
    alloc 100 512
    free_requested 100 0
    free_completed 100 0
    alloc 200 512
    oom 104857600 512
    ");
    rig.cuda.check_invariants();
}

#[test]
fn trackers_of_segments_are_told_of_nothing_else() {
    let rig = Rig::new(64 * MIB);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (cuda, log) = (rig.cuda.clone(), Arc::clone(&seen));
    rig.cuda.attach_segment_tracker(Arc::new(move |entry: &TraceEntry| {
        // No lock is held, and the call is through.
        let reserved = cuda.memory_reserved(0).unwrap();
        log.lock().unwrap().push(format!("{} {} {reserved}", entry.action, entry.size));
    }));
    drop(rig.allocate(100));
    drop(rig.allocate(100));
    rig.cuda.attach_segment_tracker(Arc::new(|_| panic!("a tracker's fault")));
    // The history has them too, among the others.
    rig.cuda.record_history(Some(History { max_entries: 9, ..History::default() }));
    drop(rig.allocate(3 * MIB));
    rig.cuda.empty_cache().unwrap();
    rig.cuda.record_history(None);
    drop(rig.allocate(100));
    insta::assert_snapshot!(seen.lock().unwrap().join("\n"), @"
    segment_alloc 2097152 2097152
    segment_alloc 20971520 23068672
    segment_free 20971520 0
    segment_free 2097152 0
    segment_alloc 2097152 2097152
    ");
    rig.cuda.check_invariants();
}

#[test]
fn remarks_and_names_stand_in_the_entries() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.annotate("nobody records", 0).unwrap();
    rig.cuda.record_history(Some(History { max_entries: 9, ..History::default() }));
    rig.cuda.annotate("step 1", 0).unwrap();
    rig.cuda.set_user_metadata(Some("warm-up"), 0).unwrap();
    let outer = CompileContext::enter("0/0");
    let inner = CompileContext::enter("1/0");
    let _a = rig.allocate(512);
    drop(inner);
    let _b = rig.allocate(512);
    // One that is dropped out of order takes what is within it along.
    let within = CompileContext::enter("2/0");
    drop(outer);
    drop(within);
    rig.cuda.set_user_metadata(None, 0).unwrap();
    let _c = rig.allocate(512);
    let entries = &rig.cuda.snapshot(true).device_traces[0];
    let line = |entry: &TraceEntry| {
        let compile = entry.compile_context.as_deref().unwrap_or("N/A");
        format!("{} {compile} {}", entry.action, entry.user_metadata.as_deref().unwrap_or("-"))
    };
    insta::assert_snapshot!(entries.iter().map(line).collect::<Vec<_>>().join("\n"), @"
    annotate N/A step 1
    segment_alloc 1/0 warm-up
    alloc 1/0 warm-up
    alloc 0/0 warm-up
    alloc N/A -
    ");
    rig.cuda.annotate("no such device", 9).unwrap_err();
}
