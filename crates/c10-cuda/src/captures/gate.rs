//! [`Gate`]: captures that begin, against calls that none is to begin in; and what waits until none is under way.
//!
//! // Note [Captures that begin meanwhile]
//! Who sees that none is under way, and makes such a call, must have made it before one begins. So the call is counted
//! while it lasts ([`Quiet`]), and a capture that is to begin is counted first, and waits then for the calls that are
//! under way; whoever comes after that sees it. A thread that is in a call already is not kept from another. The
//! program's callbacks are not run in one.
//!
//! That of a call and a capture which come at once one sees the other rests on `calls`, which a capture reads by a
//! change of nothing. A call's own change comes before that or after it. Before it: the capture sees the call. After
//! it: the call takes over what the capture had written, and sees it counted. The loom models
//! (`tests/loom_captures.rs`) look at this in every order.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{self, Condvar, Mutex, MutexGuard, lock};

/// Lets captures begin when no call is under way that they would spoil, or that would spoil them.
#[derive(Default)]
pub(crate) struct Gate {
    under_way: AtomicUsize,
    /// Calls that no capture is to begin in.
    calls: AtomicUsize,
    /// For captures that wait for those.
    beginning: Mutex<()>,
    calls_over: Condvar,
    /// To be done when none is under way, in order.
    left: Mutex<Vec<Left>>,
}

type Left = Box<dyn FnOnce() + Send>;

sync::thread_local! {
    /// The [`Gate`] that this thread holds, by address, and how many times it does; 0 for none.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

impl Gate {
    /// Whether any capture is under way or about to begin.
    #[inline]
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Holds off captures that would begin, until what is given is dropped; `None` where one is under way.
    #[inline]
    pub(crate) fn quiet(&self) -> Option<Quiet<'_>> {
        let own = std::ptr::from_ref(self).addr();
        let (holds, times) = HELD.with(Cell::get);
        if holds == own {
            HELD.with(|held| held.set((own, times + 1)));
            return Some(Quiet { of: self, is_noted: true, not_send: PhantomData });
        }
        if self.are_under_way() {
            return None;
        }
        self.calls.fetch_add(1, Ordering::Acquire);
        let is_noted = times == 0;
        if is_noted {
            HELD.with(|held| held.set((own, 1)));
        }
        let quiet = Quiet { of: self, is_noted, not_send: PhantomData };
        // Dropped, it wakes the capture that has come in between.
        (self.under_way.load(Ordering::Acquire) == 0).then_some(quiet)
    }

    /// One more capture, which begins after this. Waits for calls that it could not begin in; the caller holds no lock
    /// that they may want.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        // A program's allocator that begins one in a call of this thread is not waited for.
        let own = usize::from(HELD.with(Cell::get).0 == std::ptr::from_ref(self).addr());
        let mut beginning = lock(&self.beginning);
        // See Note [Captures that begin meanwhile].
        while self.calls.fetch_add(0, Ordering::AcqRel) > own {
            beginning = self.calls_over.wait(beginning).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// One capture less; with the last, does what was left. The caller holds no lock that this may want.
    pub(crate) fn end(&self) {
        if self.under_way.fetch_sub(1, Ordering::Release) == 1 {
            let left = std::mem::take(&mut *lock(&self.left));
            // Another may have begun.
            left.into_iter().for_each(|work| self.when_over(work));
        }
    }

    /// Does something when no capture is under way: at once, or when the last has ended, on whatever thread. None
    /// begins while it is done.
    pub(crate) fn when_over(&self, work: impl FnOnce() + Send + 'static) {
        let mut left = lock(&self.left);
        let Some(_quiet) = self.quiet() else {
            left.push(Box::new(work));
            return;
        };
        drop(left);
        work();
    }
}

/// That no capture is under way, nor begins, until this is dropped.
#[must_use = "a capture may begin as soon as this is dropped"]
pub(crate) struct Quiet<'a> {
    of: &'a Gate,
    /// Whether it is among the thread's [`HELD`].
    is_noted: bool,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Drop for Quiet<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_noted {
            let (of, times) = HELD.with(Cell::get);
            if times > 1 {
                HELD.with(|held| held.set((of, times - 1)));
                return;
            }
            HELD.with(|held| held.set((0, 0)));
        }
        self.of.calls.fetch_sub(1, Ordering::AcqRel);
        if self.of.are_under_way() {
            // Under the lock, so that a capture that has just looked is woken.
            let _beginning = lock(&self.of.beginning);
            self.of.calls_over.notify_all();
        }
    }
}
