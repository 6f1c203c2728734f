//! [`Captures`]: how many captures of a runtime are under way, and what waits until none is.
//!
//! CUDA forbids calls that could disturb a capture, and one that it refuses has spoilt the capture. Some of them
//! cannot be made harmless by the thread's relaxed mode: a device of which a stream captures cannot be waited for. What
//! needs such a call and cannot return an error, because it is a drop, is left here.
//!
//! // Note [Captures that begin meanwhile]
//! Who sees that none is under way, and makes such a call, must have made it before one begins. So the call is counted
//! while it lasts ([`Quiet`]), and a capture that is to begin is counted first, and waits then for the calls that are
//! under way; whoever comes after that sees it. A thread that is in a call already is not kept from another. The
//! program's callbacks are not run in one.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::thread::{self, ThreadId};

use crate::driver::{CaptureMode, Driver, DriverError};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// The captures that the allocators of a runtime were told of.
#[derive(Default)]
pub(crate) struct Captures {
    under_way: AtomicUsize,
    /// Calls that no capture is to begin in.
    calls: AtomicUsize,
    /// For captures that wait for those.
    beginning: Mutex<()>,
    calls_over: Condvar,
    /// To be done when none is under way, in order.
    left: Mutex<Vec<Left>>,
    /// The modes of threads to which the driver has not let them go back.
    owed: Mutex<Vec<(ThreadId, CaptureMode)>>,
    is_owing: AtomicBool,
}

type Left = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The [`Captures`] that this thread holds off, by address, and how many times it does; 0 for none.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

impl Captures {
    /// Whether any is under way or about to begin.
    #[inline]
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Holds off captures that would begin, until what is given is dropped; `None` where one is under way. See Note
    /// [Captures that begin meanwhile].
    #[inline]
    pub(crate) fn quiet(&self) -> Option<Quiet<'_>> {
        let own = std::ptr::from_ref(self).addr();
        let (holds, times) = HELD.get();
        if holds == own {
            HELD.set((own, times + 1));
            return Some(Quiet { of: self, is_noted: true, not_send: PhantomData });
        }
        if self.are_under_way() {
            return None;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let is_noted = times == 0;
        if is_noted {
            HELD.set((own, 1));
        }
        let quiet = Quiet { of: self, is_noted, not_send: PhantomData };
        // Dropped, it wakes the capture that has come in between.
        (self.under_way.load(Ordering::SeqCst) == 0).then_some(quiet)
    }

    /// One more, which begins after this. Waits for calls that it could not begin in; the caller holds no lock that
    /// they may want.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        // A program's allocator that begins one in a call of this thread is not waited for.
        let own = usize::from(HELD.get().0 == std::ptr::from_ref(self).addr());
        let mut beginning = lock(&self.beginning);
        while self.calls.load(Ordering::SeqCst) > own {
            beginning = self.calls_over.wait(beginning).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// One less; with the last, does what was left. The caller holds no lock that this may want.
    pub(crate) fn end(&self) {
        if self.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
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

    /// Makes this thread's calls disturb no capture, under way or about to begin.
    #[inline]
    pub(crate) fn relaxed<'a>(&'a self, driver: &'a dyn Driver) -> Result<Undisturbing<'a>, DriverError> {
        match self.quiet() {
            Some(quiet) => Ok(Undisturbing::Quiet(quiet)),
            None => self.relaxed_mode(driver).map(Undisturbing::Relaxed),
        }
    }

    /// The relaxed mode, whether or not a capture is under way.
    pub(crate) fn relaxed_mode<'a>(&'a self, driver: &'a dyn Driver) -> Result<RelaxedMode<'a>, DriverError> {
        let found = driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        let before = self.take_owed().unwrap_or(found);
        Ok(RelaxedMode { driver, captures: self, before })
    }

    /// The mode that this thread was to go back to, and could not.
    fn take_owed(&self) -> Option<CaptureMode> {
        if !self.is_owing.load(Ordering::Acquire) {
            return None;
        }
        let mut owed = lock(&self.owed);
        let thread = thread::current().id();
        let at = owed.iter().position(|(of, _)| *of == thread)?;
        let (_, mode) = owed.swap_remove(at);
        self.is_owing.store(!owed.is_empty(), Ordering::Release);
        Some(mode)
    }

    /// Keeps the mode that this thread could not go back to, for its next call in the relaxed mode.
    fn owe(&self, mode: CaptureMode) {
        lock(&self.owed).push((thread::current().id(), mode));
        self.is_owing.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Captures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captures").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

/// That no capture of the runtime is under way, nor begins, until this is dropped.
#[must_use = "a capture may begin as soon as this is dropped"]
pub(crate) struct Quiet<'a> {
    of: &'a Captures,
    /// Whether it is among the thread's [`HELD`].
    is_noted: bool,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Drop for Quiet<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_noted {
            let (of, times) = HELD.get();
            if times > 1 {
                HELD.set((of, times - 1));
                return;
            }
            HELD.set((0, 0));
        }
        self.of.calls.fetch_sub(1, Ordering::SeqCst);
        if self.of.under_way.load(Ordering::SeqCst) > 0 {
            // Under the lock, so that a capture that has just looked is woken.
            let _beginning = lock(&self.of.beginning);
            self.of.calls_over.notify_all();
        }
    }
}

/// What keeps the calling thread's calls from disturbing a capture.
#[must_use = "captures are disturbed as soon as this is dropped"]
pub(crate) enum Undisturbing<'a> {
    /// None is under way, nor begins.
    Quiet(#[expect(dead_code, reason = "held, not read")] Quiet<'a>),
    /// The thread's relaxed mode.
    Relaxed(#[expect(dead_code, reason = "held, not read")] RelaxedMode<'a>),
}

/// The calling thread's relaxed mode, until it is dropped.
#[must_use = "the mode before is restored as soon as this is dropped"]
pub(crate) struct RelaxedMode<'a> {
    driver: &'a dyn Driver,
    captures: &'a Captures,
    before: CaptureMode,
}

impl Drop for RelaxedMode<'_> {
    fn drop(&mut self) {
        if self.driver.exchange_capture_mode(self.before).is_err() {
            self.captures.owe(self.before);
        }
    }
}

#[cfg(test)]
mod tests;
