#![expect(unsafe_code, reason = "workers follow a pointer to the loop's body while its owner waits for them")]
//! [`run`]: one loop, by the thread that asked for it and those workers that come in time.
//!
//! // Note [Workers that come late]
//! A worker that sleeps takes as long to wake as a small loop takes to run. So the calling thread does not wait for
//! workers that have not begun: it takes pieces itself until there are none, and closes the *gate*. A worker that
//! comes then goes away again, and touches nothing of the loop. Those that are inside are waited for.
//!
//! The gate is one word: how many workers are inside, and whether it is closed. The loop's body, which the calling
//! thread owns, is touched inside the gate alone.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

use rayon::ThreadPool;

use super::InsideLoop;

/// The bit of the gate that says that nobody may enter.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// How often the calling thread looks whether workers are done before it sleeps.
const LOOKS: usize = 2000;

/// What a loop does for each piece.
type Body<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// One loop, as its workers know it.
struct Loop {
    /// The body, while the gate is open or somebody is inside.
    body: *const Body<'static>,
    range: Range<usize>,
    piece: usize,
    /// The next piece to be taken.
    next: AtomicUsize,
    gate: AtomicUsize,
    owner: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the body is `Sync`, and followed as the gate allows; the rest is made for sharing.
unsafe impl Send for Loop {}
// SAFETY: as above.
unsafe impl Sync for Loop {}

/// Runs `body` over `range`, cut into pieces, on this thread and up to so many workers of `pool`.
pub(super) fn run(pool: &ThreadPool, workers: usize, range: Range<usize>, piece: usize, body: &Body<'_>) {
    let body: *const Body<'_> = body;
    let shared = Arc::new(Loop {
        // SAFETY: only the lifetime changes. The pointer is followed inside the gate alone, which `Closing` closes
        // and waits for before the body can end.
        body: unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) },
        range,
        piece,
        next: AtomicUsize::new(0),
        gate: AtomicUsize::new(0),
        owner: std::thread::current(),
        panic: Mutex::new(None),
    });
    let closing = Closing(&shared);
    for _ in 0..workers {
        let shared = Arc::clone(&shared);
        pool.spawn(move || shared.help());
    }
    shared.work();
    drop(closing);
    let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Closes the gate, also when this thread's own pieces panic, and waits for those inside.
struct Closing<'a>(&'a Loop);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        shared.gate.fetch_or(CLOSED, Ordering::AcqRel);
        let mut looks = 0;
        while shared.gate.load(Ordering::Acquire) != CLOSED {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

impl Loop {
    /// A worker's part.
    fn help(&self) {
        let enter = |gate: usize| (gate & CLOSED == 0).then_some(gate + 1);
        if self.gate.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_err() {
            return;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work())) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
        }
        // The last to leave wakes the owner, who may sleep.
        if self.gate.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            self.owner.unpark();
        }
    }

    /// Takes pieces until there are none. For the owner, and inside the gate.
    fn work(&self) {
        let _inside = InsideLoop::enter();
        // SAFETY: the caller is the owner, whose body lives, or inside the gate, for which the owner waits.
        let body = unsafe { &*self.body };
        loop {
            let taken = self.next.fetch_add(1, Ordering::Relaxed);
            let start = match taken.checked_mul(self.piece) {
                Some(offset) if offset < self.range.len() => self.range.start + offset,
                _ => return,
            };
            body(start..self.range.end.min(start + self.piece));
        }
    }
}
