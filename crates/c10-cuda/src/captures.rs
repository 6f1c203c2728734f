//! [`Captures`]: how many captures of a runtime are under way, and what waits until none is.
//!
//! CUDA forbids calls that could disturb a capture, and one that it refuses has spoilt the capture. Some of them
//! cannot be made harmless by the thread's relaxed mode: a device of which a stream captures cannot be waited for. What
//! needs such a call and cannot return an error, because it is a drop, is left here.

use std::fmt;

use crate::driver::{CaptureMode, Driver, DriverError};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// The captures that the allocators of a runtime were told of.
#[derive(Default)]
pub(crate) struct Captures {
    under_way: AtomicUsize,
    /// To be done when none is, in order.
    left: Mutex<Vec<Left>>,
}

type Left = Box<dyn FnOnce() + Send>;

impl Captures {
    /// Whether any is under way.
    #[inline]
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// One more.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; with the last, does what was left. The caller holds no lock that this may want.
    pub(crate) fn end(&self) {
        if self.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            let left = std::mem::take(&mut *lock(&self.left));
            left.into_iter().for_each(|work| work());
        }
    }

    /// Does something when no capture is under way: at once, or when the last has ended, on whatever thread.
    pub(crate) fn when_over(&self, work: impl FnOnce() + Send + 'static) {
        let mut left = lock(&self.left);
        if self.are_under_way() {
            left.push(Box::new(work));
            return;
        }
        drop(left);
        work();
    }

    /// Makes this thread's calls disturb no capture, where one is under way.
    #[inline]
    pub(crate) fn relaxed<'a>(&self, driver: &'a dyn Driver) -> Result<Option<RelaxedMode<'a>>, DriverError> {
        if self.are_under_way() { RelaxedMode::enter(driver).map(Some) } else { Ok(None) }
    }
}

impl fmt::Debug for Captures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captures").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

/// The calling thread's relaxed mode, until it is dropped.
#[must_use = "the mode before is restored as soon as this is dropped"]
pub(crate) struct RelaxedMode<'a> {
    driver: &'a dyn Driver,
    before: CaptureMode,
}

impl<'a> RelaxedMode<'a> {
    pub(crate) fn enter(driver: &'a dyn Driver) -> Result<Self, DriverError> {
        let before = driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        Ok(Self { driver, before })
    }
}

impl Drop for RelaxedMode<'_> {
    fn drop(&mut self) {
        // The mode was the thread's own; there is nobody to tell of an error.
        let _ = self.driver.exchange_capture_mode(self.before);
    }
}
