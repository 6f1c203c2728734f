#![expect(unsafe_code, reason = "asks the C library to tell when the process ends, and to end it")]
//! The end of the process: a real driver refuses calls from static destructors that run after its own, and here a
//! program can be held to make none, and to have given everything back.
//!
//! `CUDA_STANDIN_EXIT` says what is made of it: `report` writes to the standard error how many handles are live, ended
//! with their context, and calls were made when the end begins, and each call after that by name; `strict` writes what
//! is not as it should be alone, and ends the process with [`NOT_WELL`]. Otherwise nobody looks.

use std::ffi::c_void;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use crate::{entry, ipc};

/// With this a process ends that is held to what it has not done.
const NOT_WELL: i32 = 86;

static BEGUN: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();
/// The process that called `cuInit`; 0 is none.
static INITIALIZED_IN: AtomicU32 = AtomicU32::new(0);
static MANNER: OnceLock<Manner> = OnceLock::new();

/// What is made of how a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Silent,
    Report,
    Strict,
}

/// What there is when the end begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtEnd {
    /// Handles that nobody has given back.
    pub(crate) live: u64,
    /// Handles that ended with their context.
    pub(crate) swept: u64,
    /// Calls in the life of the process.
    pub(crate) calls: u64,
}

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
    fn fflush(stream: *mut c_void) -> i32;
    fn _exit(code: i32) -> !;
}

extern "C" fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
    if is_forked() {
        return;
    }
    ipc::remove_all();
    let manner = manner();
    // A thread that is in a call at the end is left alone.
    if manner != Manner::Silent
        && let Some(AtEnd { live, swept, calls }) = entry::at_end()
        && (manner == Manner::Report || live + swept > 0)
    {
        say(&format!("the end: {live} live handles, {swept} ended with their context, {calls} calls"));
        end_if_strict();
    }
}

/// Asks to be told, once. What the program registers later with the C library runs before, and may still call.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        MANNER.get_or_init(manner_of_environment);
        // SAFETY: the handler stays for ever, takes nothing and does not unwind.
        unsafe { atexit(begin) };
        INITIALIZED_IN.store(std::process::id(), Ordering::Relaxed);
    });
}

pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}

/// Whether this process is a fork of the one that called `cuInit`: CUDA does not work there.
pub(crate) fn is_forked() -> bool {
    let parent = INITIALIZED_IN.load(Ordering::Relaxed);
    parent != 0 && parent != std::process::id()
}

/// A call has come after the end began.
#[cold]
pub(crate) fn late(call: &str) {
    if manner() != Manner::Silent && !is_forked() {
        say(&format!("{call} was called after the end"));
        end_if_strict();
    }
}

fn manner() -> Manner {
    MANNER.get().copied().unwrap_or(Manner::Silent)
}

fn manner_of_environment() -> Manner {
    match std::env::var("CUDA_STANDIN_EXIT").as_deref() {
        Ok("report") => Manner::Report,
        Ok("strict") => Manner::Strict,
        _ => Manner::Silent,
    }
}

fn say(what: &str) {
    // One write, which other threads' lines do not divide. Where nobody listens there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("cuda-standin: {what}\n").as_bytes());
}

fn end_if_strict() {
    if manner() == Manner::Strict {
        // SAFETY: null stands for all streams that the program writes.
        unsafe { fflush(std::ptr::null_mut()) };
        // SAFETY: it takes any number.
        unsafe { _exit(NOT_WELL) }
    }
}
