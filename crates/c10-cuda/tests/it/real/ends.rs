//! The end of the process: nothing calls the driver from there, whatever is left in statics, in thread-locals, with
//! nobody and with threads. Each case is a process of its own, and the stand-in says what was called and when.
#![cfg(target_os = "linux")]

use std::cell::OnceCell;
use std::env;
use std::process::{Command, exit};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use c10_core::DataPtr;
use c10_cuda::{
    CachingAllocator, CaptureOptions, Config, CudaEvent, CudaGraph, CudaStream, PinnedAllocator, PinnedConfig,
};

use super::RealRig;

/// Says to a process that it is a child of these tests, and how it ends.
const CHILD: &str = "TENSORPLAY_ENDS";

/// How many calls there were when the child had done its work, behind this.
const CALLS: &str = "child: calls ";

/// All that a program can hold, in use.
struct Program {
    cuda: CachingAllocator,
    pinned: PinnedAllocator,
    blocks: Vec<DataPtr>,
    streams: [CudaStream; 2],
    event: CudaEvent,
    graph: CudaGraph,
}

impl Program {
    fn new(rig: &RealRig, settings: &str) -> Self {
        let cuda = CachingAllocator::new(rig.driver(), Config::parse(settings).unwrap()).unwrap();
        let runtime = cuda.runtime();
        let streams = [(); 2].map(|()| CudaStream::from_pool(runtime, 0, 0).unwrap());
        let pinned = PinnedAllocator::new(runtime.clone(), PinnedConfig::default()).unwrap();
        let host = pinned.allocate(4096).unwrap();
        pinned.record_event(&host, &streams[1]).unwrap();
        let block = cuda.allocate_on(1 << 20, &streams[0]).unwrap();
        cuda.record_stream(&block, &streams[1]).unwrap();
        let event = streams[0].record_event().unwrap();
        let (graph, output) =
            CudaGraph::capture(&cuda, &streams[0], CaptureOptions::default(), |_| cuda.allocate(4096))
                .unwrap();
        runtime.set_current_stream(&streams[1]).unwrap();
        // Freed with a use that is not over, and cached; and held.
        drop(cuda.allocate(100).unwrap());
        let blocks = vec![host, block, output];
        Self { cuda, pinned, blocks, streams, event, graph }
    }
}

static LEFT: OnceLock<Program> = OnceLock::new();

thread_local! {
    static OWN: OnceCell<Program> = const { OnceCell::new() };
}

/// Not a test by itself: what a child process does.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child() {
    let Ok(how) = env::var(CHILD) else { return };
    let rig = RealRig::new(1).expect("the parent has found the stand-in");
    let program = |settings| Program::new(&rig, settings);
    assert!(LEFT.set(program("")).is_ok());
    std::mem::forget(program("expandable_segments:True"));
    let on_thread = thread::scope(|scope| {
        let work = || OWN.with(|own| _ = own.set(program("backend:cudaMallocAsync")));
        // A thread-local goes with its thread, while there is a driver.
        scope.spawn(work).join()
    });
    on_thread.unwrap();
    let (ready, is_ready) = mpsc::channel();
    let theirs = program("");
    thread::spawn(move || hold_for_ever(theirs, &ready));
    is_ready.recv().unwrap();
    let calls = rig.control.expect("it is the stand-in").calls();
    println!("{CALLS}{calls}");
    // It would see that things are live.
    std::mem::forget(rig);
    if how == "exit" {
        exit(0);
    }
}

fn hold_for_ever(program: Program, ready: &Sender<()>) {
    ready.send(()).unwrap();
    loop {
        thread::park();
        // What is not used is not held.
        let Program { cuda, pinned, blocks, streams, event, graph } = &program;
        let _ = (cuda, pinned, blocks, streams, event, graph);
    }
}

#[test]
fn the_end_of_the_process_calls_nothing() {
    let Some((rig, _)) = RealRig::over_standin(1) else { return };
    drop(rig);
    for how in ["return", "exit"] {
        let output = Command::new(env::current_exe().unwrap())
            .args(["real::ends::child", "--ignored", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, how)
            .env("CUDA_STANDIN_EXIT", "report")
            .output()
            .unwrap();
        let (said, reported) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{how}: {said}{reported}");
        let line = said.lines().find_map(|line| line.split_once(CALLS));
        let (_, calls) = line.unwrap_or_else(|| panic!("{how}: {said}{reported}"));
        // One line: a late call would be another.
        let reported: Vec<&str> = reported.lines().filter(|line| line.contains("cuda-standin: ")).collect();
        let [end] = reported[..] else { panic!("{how}: {reported:?}") };
        assert!(end.ends_with(&format!(", {calls} calls")), "{how}: {end}, and not {calls} calls");
        assert!(!end.contains(": 0 live handles"), "{how}: there was nothing to be given back: {end}");
    }
}
