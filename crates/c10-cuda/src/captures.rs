//! [`Captures`]: how many captures of a driver are under way, and what waits until none is.
//!
//! CUDA forbids calls that could disturb a capture, and one that it refuses has spoilt the capture. Some of them
//! cannot be made harmless by the thread's relaxed mode: a device of which a stream captures cannot be waited for. What
//! needs such a call and cannot return an error, because it is a drop, is left here.
//!
//! Captures are the process's, whichever runtime begins them: there is one of these for each machine that a driver
//! stands for, and the runtimes of the driver have it of that.

mod gate;

use std::fmt;
use std::thread::{self, ThreadId};

use self::gate::Gate;
pub(crate) use self::gate::Quiet;
use crate::driver::{CaptureMode, Driver, DriverError};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};

/// The captures that the allocators of a driver were told of.
#[derive(Default)]
pub struct Captures {
    gate: Gate,
    /// The modes of threads to which the driver has not let them go back.
    owed: Mutex<Vec<(ThreadId, CaptureMode)>>,
    is_owing: AtomicBool,
}

impl Captures {
    /// Whether any is under way or about to begin.
    #[inline]
    pub(crate) fn are_under_way(&self) -> bool {
        self.gate.are_under_way()
    }

    /// Holds off captures that would begin, until what is given is dropped; `None` where one is under way. See Note
    /// [Captures that begin meanwhile].
    #[inline]
    pub(crate) fn quiet(&self) -> Option<Quiet<'_>> {
        self.gate.quiet()
    }

    /// One more, which begins after this. Waits for calls that it could not begin in; the caller holds no lock that
    /// they may want.
    pub(crate) fn begin(&self) {
        self.gate.begin();
    }

    /// One less; with the last, does what was left. The caller holds no lock that this may want.
    pub(crate) fn end(&self) {
        self.gate.end();
    }

    /// Does something when no capture is under way: at once, or when the last has ended, on whatever thread. None
    /// begins while it is done.
    pub(crate) fn when_over(&self, work: impl FnOnce() + Send + 'static) {
        self.gate.when_over(work);
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
        f.debug_struct("Captures").field("under_way", &self.are_under_way()).finish_non_exhaustive()
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
