#![expect(unsafe_code, reason = "asks the C library to tell when the process ends")]
//! Whether the process is ending: a real driver refuses calls from static destructors that run after its own.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::ipc;

static BEGUN: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();
/// The process that called `cuInit`; 0 is none.
static INITIALIZED_IN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
}

extern "C" fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
    if !is_forked() {
        ipc::remove_all();
    }
}

/// Asks to be told, once. What the program registers later with the C library runs before, and may still call.
pub(crate) fn watch() {
    WATCH.call_once(|| {
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
