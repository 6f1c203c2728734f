#![expect(unsafe_code, reason = "opens memory that the other process keeps until it is told")]
//! Memory and events shared by two processes. The test's child makes and exports them; this process opens them.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use c10_cuda::driver::{EventFlags, IpcHandle, Status, StreamHandle};

use super::RealRig;
use super::faults::FAILURES;
use crate::support::{fill, free, free_range, read, unmap};

const S0: StreamHandle = StreamHandle::default_of(0);
/// Says to a process that it is the one that exports.
const CHILD: &str = "TENSORPLAY_EXPORTS";
/// What the child says, behind this.
const SAYS: &str = "child: ";

fn hex(handle: &IpcHandle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> IpcHandle {
    let bytes = (0..64).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap());
    IpcHandle(bytes.collect::<Vec<_>>().try_into().unwrap())
}

/// Not a test by itself: what the child process does.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let Some(rig) = RealRig::new(1) else {
        println!("{SAYS}skipped");
        return;
    };
    let ptr = rig.malloc(0, 4096).unwrap();
    let event = rig.event_create(0, EventFlags { interprocess: true, ..EventFlags::default() }).unwrap();
    let unit = rig.granularity(0).unwrap();
    let range = rig.reserve(0, unit).unwrap();
    let memory = rig.create(0, unit).unwrap();
    rig.map(range.base, memory).unwrap();
    rig.set_access(range.base, unit, &[0]).unwrap();
    fill(&*rig, ptr, 11, 4096, S0).unwrap();
    fill(&*rig, range.base, 22, unit, S0).unwrap();
    rig.event_record(event, S0).unwrap();
    rig.stream_synchronize(S0).unwrap();
    let exported = rig.export_memory(memory).unwrap();
    assert_eq!(rig.export_memory(memory).unwrap(), exported, "one file serves all who ask");
    let handles = [rig.ipc_export(ptr).unwrap(), rig.event_export(event).unwrap(), exported];
    println!("{SAYS}{}", handles.map(|handle| hex(&handle)).join(" "));
    let wait = || std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    // The other process has written.
    assert_ne!(wait(), 0);
    assert_eq!(read(&*rig, ptr, 4, S0), [33; 4]);
    assert_eq!(read(&*rig, range.base, 4, S0), [44; 4]);
    unmap(&*rig, range.base, unit).unwrap();
    rig.release(memory).unwrap();
    println!("{SAYS}released");
    // The other process has looked at what was released here, and closed the rest.
    assert_ne!(wait(), 0);
    free_range(&*rig, range).unwrap();
    rig.event_destroy(event).unwrap();
    free(&*rig, ptr).unwrap();
    println!("{SAYS}done");
}

/// The other process.
struct Exporter {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Exporter {
    fn start() -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["real::memory_of_others::child", "--ignored", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    /// What it says next.
    fn says(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the child has ended");
            if let Some((_, said)) = line.trim_end().split_once(SAYS) {
                return said.to_owned();
            }
        }
    }

    fn go_on(&mut self) {
        self.to.write_all(b"\n").unwrap();
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // A child that is waiting when a test fails ends here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each of CUDA's functions that opens what another process exports fails, once in each way.
fn failures_leave_nothing_open(rig: &RealRig, memory: &IpcHandle, event: &IpcHandle, physical: &IpcHandle) {
    let Some(control) = rig.control else { return };
    for (number, status) in FAILURES {
        control.fail("cuIpcOpenMemHandle_v2", 1, number);
        // SAFETY: it is refused.
        let opened = unsafe { rig.ipc_open(0, memory) };
        assert_eq!(opened.unwrap_err().status, status);
        control.fail("cuIpcOpenEventHandle", 1, number);
        assert_eq!(rig.event_open(0, event).unwrap_err().status, status);
        for function in ["cuMemImportFromShareableHandle", "cuMemGetAllocationPropertiesFromHandle"] {
            control.fail(function, 1, number);
            assert_eq!(rig.import_memory(0, physical).unwrap_err().status, status, "{function}");
        }
        assert_eq!(control.live_handles(), 0, "something was left open");
    }
}

#[test]
fn another_process_shares_memory_and_events() {
    let Some(rig) = RealRig::new(1) else { return };
    let mut other = Exporter::start();
    let said = other.says();
    let handles: Vec<IpcHandle> = said.split(' ').map(from_hex).collect();
    let [memory, event, physical] = handles[..] else { panic!("{said}") };
    failures_leave_nothing_open(&rig, &memory, &event, &physical);

    // SAFETY: the other process keeps the allocation until it is closed here.
    let ptr = unsafe { rig.ipc_open(0, &memory) }.unwrap();
    // SAFETY: as above; this is refused.
    let again = unsafe { rig.ipc_open(0, &memory) };
    assert_eq!(again.unwrap_err().status, Status::AlreadyMapped);
    let event = rig.event_open(0, &event).unwrap();
    rig.stream_wait_event(S0, event).unwrap();
    assert_eq!(read(&*rig, ptr, 4096, S0), [11; 4096]);
    rig.event_synchronize(event).unwrap();
    assert!(rig.event_query(event).unwrap());

    let imported = rig.import_memory(0, &physical).unwrap();
    let unit = rig.granularity(0).unwrap();
    assert_eq!(imported.bytes, unit);
    let range = rig.reserve(0, unit).unwrap();
    rig.map(range.base, imported).unwrap();
    rig.set_access(range.base, unit, &[0]).unwrap();
    assert_eq!(read(&*rig, range.base, 4, S0), [22; 4]);
    fill(&*rig, ptr, 33, 4096, S0).unwrap();
    fill(&*rig, range.base, 44, unit, S0).unwrap();
    rig.stream_synchronize(S0).unwrap();
    other.go_on();
    assert_eq!(other.says(), "released");
    assert_eq!(read(&*rig, range.base, 4, S0), [44; 4], "the memory lives while anybody has it");
    let gone = rig.import_memory(0, &physical).unwrap_err();
    assert_eq!(gone.status, Status::InvalidHandle);
    assert!(gone.to_string().contains("has released it"), "{gone}");

    unmap(&*rig, range.base, unit).unwrap();
    rig.release(imported).unwrap();
    free_range(&*rig, range).unwrap();
    rig.event_destroy(event).unwrap();
    for (number, status) in FAILURES {
        let Some(control) = rig.control else { break };
        control.fail("cuIpcCloseMemHandle", 1, number);
        // SAFETY: nothing uses the memory any more.
        assert_eq!(unsafe { rig.ipc_close(ptr) }.unwrap_err().status, status);
    }
    // SAFETY: nothing uses the memory any more.
    unsafe { rig.ipc_close(ptr) }.unwrap();
    // SAFETY: it is refused.
    assert_eq!(unsafe { rig.ipc_close(ptr) }.unwrap_err().status, Status::InvalidValue);
    other.go_on();
    assert_eq!(other.says(), "done");
    assert!(other.child.wait().unwrap().success());
    let ended = rig.import_memory(0, &physical).unwrap_err();
    assert_eq!(ended.status, Status::InvalidHandle);
    assert!(ended.to_string().contains("has ended"), "{ended}");
}

#[test]
fn handles_that_mean_nothing_are_refused() {
    let Some(rig) = RealRig::new(1) else { return };
    let nothing = IpcHandle([0; 64]);
    assert_eq!(rig.import_memory(0, &nothing).unwrap_err().status, Status::InvalidValue);
    assert_eq!(rig.import_memory(9, &nothing).unwrap_err().status, Status::InvalidDevice);
    rig.event_open(0, &nothing).unwrap_err();
    // SAFETY: it is refused.
    unsafe { rig.ipc_open(0, &nothing) }.unwrap_err();
    let event = rig.event_create(0, EventFlags::default()).unwrap();
    assert_eq!(rig.event_export(event).unwrap_err().status, Status::InvalidValue);
    rig.event_destroy(event).unwrap();
    let unit = rig.granularity(0).unwrap();
    let memory = rig.create(0, unit).unwrap();
    let exported = rig.export_memory(memory).unwrap();
    // The same file under other lengths, and files that are no memory.
    for (at, bytes) in [(16, [1, 0, 0, 0]), (16, [0; 4]), (12, [0; 4]), (8, [0; 4]), (8, [0xff; 4])] {
        let mut forged = exported;
        forged.0[at..at + 4].copy_from_slice(&bytes);
        rig.import_memory(0, &forged).unwrap_err();
    }
    // A process may import what it exported itself.
    let own = rig.import_memory(0, &exported).unwrap();
    rig.release(own).unwrap();
    rig.release(memory).unwrap();
    assert_eq!(rig.export_memory(memory).unwrap_err().status, Status::InvalidHandle);
}
