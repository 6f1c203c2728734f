//! The gate between captures and the calls that none is to begin in, in every order that loom can think of. See Note
//! [Captures that begin meanwhile]. Two counts stand for the driver, which order nothing: a call finds no capture, and a
//! capture no call, and neither what has long ended.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-cuda --test loom_captures --release
//! ```
#![cfg(loom)]
#![allow(unreachable_pub, reason = "the module is a part of the library, and seen from there")]

#[path = "../src/captures/gate.rs"]
mod gate;

/// What the library's module of this name has, of loom's.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    macro_rules! of_each_thread {
        ($(#[$attribute:meta])* static $name:ident: $type:ty = const $value:block;) => {
            loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
        };
    }
    pub(crate) use of_each_thread as thread_local;
}

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread::{self, JoinHandle};

use gate::Gate;

/// A gate, and what it guards.
#[derive(Default)]
struct Guarded {
    gate: Gate,
    calls: AtomicUsize,
    captures: AtomicUsize,
    done: AtomicUsize,
}

impl Guarded {
    /// A call; whether it was made.
    fn call(&self) -> bool {
        let Some(_quiet) = self.gate.quiet() else { return false };
        self.make_call();
        true
    }

    fn make_call(&self) {
        self.calls.fetch_add(1, Relaxed);
        assert_eq!(self.captures.load(Relaxed), 0, "a call in a capture");
        self.calls.fetch_sub(1, Relaxed);
    }

    fn capture(&self) {
        self.gate.begin();
        self.captures.fetch_add(1, Relaxed);
        assert_eq!(self.calls.load(Relaxed), 0, "a capture in a call");
        self.captures.fetch_sub(1, Relaxed);
        self.gate.end();
    }

    /// Leaves a call that is to be made when no capture is under way.
    fn leave(self: &Arc<Self>) {
        let own = Arc::clone(self);
        self.gate.when_over(move || {
            own.make_call();
            own.done.fetch_add(1, Relaxed);
        });
    }
}

/// Every order in which threads are switched three times at most where they could go on: what goes wrong at all does
/// so with fewer.
fn model(program: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(program);
}

fn on_a_thread<R: 'static>(
    guarded: &Arc<Guarded>,
    work: impl FnOnce(&Arc<Guarded>) -> R + 'static,
) -> JoinHandle<R> {
    let guarded = Arc::clone(guarded);
    thread::spawn(move || work(&guarded))
}

#[test]
fn a_capture_and_calls_keep_apart() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        let calls = [(); 2].map(|()| on_a_thread(&guarded, |guarded| guarded.call()));
        guarded.capture();
        calls.into_iter().for_each(|call| _ = call.join().unwrap());
        assert!(guarded.call(), "what is over keeps nobody off");
    });
}

#[test]
fn calls_go_on_between_captures() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        let calls = on_a_thread(&guarded, |guarded| [guarded.call(), guarded.call()]);
        guarded.capture();
        guarded.capture();
        calls.join().unwrap();
    });
}

#[test]
fn a_thread_that_is_in_a_call_is_kept_from_none() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        let calls = on_a_thread(&guarded, |guarded| {
            if let Some(_quiet) = guarded.gate.quiet() {
                assert!(guarded.call());
                guarded.make_call();
            }
        });
        guarded.capture();
        calls.join().unwrap();
    });
}

#[test]
fn a_capture_that_begins_in_the_threads_own_call_waits_for_the_others() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        let call = on_a_thread(&guarded, |guarded| guarded.call());
        if let Some(quiet) = guarded.gate.quiet() {
            guarded.capture();
            drop(quiet);
        }
        call.join().unwrap();
    });
}

#[test]
fn what_is_left_is_done_once_and_in_no_capture() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        let capture = on_a_thread(&guarded, |guarded| guarded.capture());
        guarded.leave();
        guarded.leave();
        capture.join().unwrap();
        assert_eq!(guarded.done.load(Relaxed), 2);
    });
}

#[test]
fn two_captures_leave_nothing_behind() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        // They are beside each other: only calls and they keep apart.
        let captures = [(); 2].map(|()| on_a_thread(&guarded, |guarded| guarded.capture()));
        guarded.leave();
        captures.into_iter().for_each(|capture| capture.join().unwrap());
        assert_eq!(guarded.done.load(Relaxed), 1);
    });
}
