//! Two processes: memory, physical memory and an event in common.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use crate::rig::{INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Rig, SUCCESS, call};
use crate::virtual_memory::{UNIT, create, map};

/// Set for the process that plays the other part.
const PART: &str = "CUDA_STANDIN_TEST_PART";

#[repr(C)]
#[derive(Clone, Copy)]
struct Ipc([u8; 64]);

fn to_text(handle: Ipc) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_text(text: &str) -> Ipc {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    Ipc(std::array::from_fn(byte))
}

/// The other process, which is told what to do by lines and answers each.
struct Other {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::the_other_process", "--nocapture"])
            .env(PART, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, answers }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the other process has ended");
            if let Some((_, answer)) = line.split_once("answer: ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn open(handle: Ipc) -> (u32, u64) {
    let mut ptr = 0;
    (call!(cuIpcOpenMemHandle_v2(&mut ptr => *mut u64, handle => Ipc, 1 => u32)), ptr)
}

fn open_event(handle: Ipc) -> (u32, u64) {
    let mut event = 0;
    (call!(cuIpcOpenEventHandle(&mut event => *mut u64, handle => Ipc)), event)
}

fn import(descriptor: i32) -> (u32, u64) {
    let mut handle = 0;
    let at = descriptor as isize as *mut u8;
    (call!(cuMemImportFromShareableHandle(&mut handle => *mut u64, at => *mut u8, 1 => u32)), handle)
}

/// What the other process does; in this one there is nothing to do.
#[test]
fn the_other_process() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let rig = Rig::new(1);
    let mut memory = 0;
    let mut event = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match verb {
            "open" => {
                let (result, ptr) = open(of_text(rest));
                memory = ptr;
                result.to_string()
            }
            "open-event" => {
                let (result, opened) = open_event(of_text(rest));
                event = opened;
                result.to_string()
            }
            "read" => rig.download(memory + 5, 3).iter().map(u8::to_string).collect::<Vec<_>>().join(" "),
            "write" => {
                rig.upload(memory + 5, &[rest.parse().unwrap(); 3]);
                String::new()
            }
            "query" => call!(cuEventQuery(event => u64)).to_string(),
            "wait" => call!(cuEventSynchronize(event => u64)).to_string(),
            "record" => call!(cuEventRecord(event => u64, 0 => u64)).to_string(),
            "close" => call!(cuIpcCloseMemHandle(memory => u64)).to_string(),
            "close-event" => call!(cuEventDestroy_v2(event => u64)).to_string(),
            "import" => {
                let file = OpenOptions::new().read(true).write(true).open(rest).unwrap();
                let (result, handle) = import(file.as_raw_fd());
                memory = map(handle);
                assert_eq!(call!(cuMemRelease(handle => u64)), SUCCESS);
                result.to_string()
            }
            "unmap" => {
                assert_eq!(call!(cuMemUnmap(memory => u64, UNIT => usize)), SUCCESS);
                call!(cuMemAddressFree(memory => u64, UNIT => usize)).to_string()
            }
            other => panic!("{other}"),
        };
        println!("answer: {answer}");
    }
}

#[test]
fn memory_is_one_in_two_processes() {
    let rig = Rig::new(1);
    let mut other = Other::start();
    let ptr = rig.malloc(1000);
    rig.upload(ptr, &[7; 100]);
    let mut handle = Ipc([0; 64]);
    let export = |at: u64, handle: &mut Ipc| call!(cuIpcGetMemHandle(handle => *mut Ipc, at => u64));
    assert_eq!(export(ptr + 8, &mut handle), INVALID_VALUE);
    assert_eq!(export(ptr, &mut handle), SUCCESS);
    let first = to_text(handle);
    assert_eq!(export(ptr, &mut handle), SUCCESS);
    assert_eq!(to_text(handle), first, "it is exported once");
    assert_eq!(open(handle).0, INVALID_CONTEXT, "a process does not open its own memory");
    assert_eq!(open(Ipc([1; 64])).0, INVALID_VALUE);
    assert_eq!(other.ask(&format!("open {first}")), "0");
    assert_eq!(other.ask("read"), "7 7 7");
    rig.upload(ptr, &[9; 100]);
    assert_eq!(other.ask("read"), "9 9 9");
    other.ask("write 4");
    assert_eq!(rig.download(ptr + 4, 5), [9, 4, 4, 4, 9]);
    // What nobody has written is as it is in memory of one process.
    assert_eq!(rig.download(ptr + 900, 2), [0xa5; 2]);
    // Opening again counts, and so does closing.
    assert_eq!(other.ask(&format!("open {first}")), "0");
    assert_eq!(other.ask("close"), "0");
    assert_eq!(other.ask("read"), "4 4 4");
    assert_eq!(other.ask("close"), "0");
    assert_eq!(other.ask("close"), INVALID_VALUE.to_string());
    rig.free(ptr);
    assert_eq!(other.ask(&format!("open {first}")), INVALID_VALUE.to_string(), "it is gone");
    other.end();
}

#[test]
fn an_event_is_one_in_two_processes() {
    let rig = Rig::manual(1);
    let mut other = Other::start();
    let (stream, ptr, plain) = (rig.stream(), rig.malloc(64), rig.event());
    let mut event = 0;
    assert_eq!(call!(cuEventCreate(&mut event => *mut u64, 2 | 4 => u32)), SUCCESS);
    let mut handle = Ipc([0; 64]);
    assert_eq!(call!(cuIpcGetEventHandle(&mut handle => *mut Ipc, plain => u64)), INVALID_HANDLE);
    assert_eq!(call!(cuIpcGetEventHandle(&mut handle => *mut Ipc, event => u64)), SUCCESS);
    assert_eq!(other.ask(&format!("open-event {}", to_text(handle))), "0");
    assert_eq!(other.ask("query"), "0", "what was never recorded is ready");
    assert_eq!(call!(cuMemsetD8Async(ptr => u64, 1 => u8, 64 => usize, stream => u64)), SUCCESS);
    assert_eq!(call!(cuEventRecord(event => u64, stream => u64)), SUCCESS);
    assert_eq!(other.ask("query"), NOT_READY.to_string());
    other.tell("wait");
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), SUCCESS);
    assert_eq!(other.answer(), "0");
    assert_eq!(other.ask("query"), "0");
    // The other process may record it as well, and this one waits.
    assert_eq!(other.ask("record"), "0");
    assert_eq!(call!(cuStreamWaitEvent(stream => u64, event => u64, 0 => u32)), SUCCESS);
    assert_eq!(call!(cuEventQuery(event => u64)), SUCCESS);
    assert_eq!(other.ask("close-event"), "0");
    rig.end_event(event);
    rig.end_event(plain);
    rig.free(ptr);
    rig.end_stream(stream);
    other.end();
}

#[test]
fn physical_memory_passes_by_a_file_descriptor() {
    let rig = Rig::new(1);
    let mut other = Other::start();
    let (made, handle) = create(0, UNIT, 1);
    assert_eq!(made, SUCCESS);
    let at = map(handle);
    rig.upload(at, &[3; 100]);
    let mut descriptor = -1;
    let export = |handle: u64, descriptor: &mut i32| {
        call!(cuMemExportToShareableHandle(
            descriptor => *mut i32, handle => u64, 1 => u32, 0 => u64
        ))
    };
    assert_eq!(export(handle, &mut descriptor), SUCCESS);
    let path = format!("/proc/{}/fd/{descriptor}", std::process::id());
    assert_eq!(other.ask(&format!("import {path}")), "0");
    assert_eq!(other.ask("read"), "3 3 3");
    other.ask("write 8");
    assert_eq!(rig.download(at + 4, 5), [3, 8, 8, 8, 3]);
    // In the same process it is the same memory as well.
    let (result, again) = import(descriptor);
    assert_eq!(result, SUCCESS);
    let second = map(again);
    rig.upload(second + 5, &[1; 3]);
    assert_eq!(rig.download(at + 4, 5), [3, 1, 1, 1, 3]);
    assert_eq!(other.ask("read"), "1 1 1");
    assert_eq!(other.ask("unmap"), "0");
    // Memory that was not made for it is not exported, and what is no such file not imported.
    let (_, private) = create(0, UNIT, 0);
    assert_eq!(export(private, &mut descriptor), INVALID_VALUE);
    assert_eq!(import(0).0, INVALID_VALUE);
    assert_eq!(import(-1).0, INVALID_VALUE);
    for mapped in [at, second] {
        assert_eq!(call!(cuMemUnmap(mapped => u64, UNIT => usize)), SUCCESS);
        assert_eq!(call!(cuMemAddressFree(mapped => u64, UNIT => usize)), SUCCESS);
    }
    for handle in [handle, again, private] {
        assert_eq!(call!(cuMemRelease(handle => u64)), SUCCESS);
    }
    other.end();
}
