//! [`DropErrors`]: what the driver refused when something was dropped, which could not return it. The next call that
//! can, does.

use crate::driver::DriverError;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};

/// The first error that was met since the last was taken.
#[derive(Debug, Default)]
pub(crate) struct DropErrors {
    /// Whether there is one, to be asked without the lock.
    is_some: AtomicBool,
    first: Mutex<Option<DriverError>>,
}

impl DropErrors {
    /// Keeps an error, where there is one and none is kept.
    pub(crate) fn note<T>(&self, result: std::result::Result<T, DriverError>) {
        if let Err(error) = result {
            lock(&self.first).get_or_insert(error);
            self.is_some.store(true, Ordering::Release);
        }
    }

    /// The error that is kept; none from here on.
    pub(crate) fn take(&self) -> Option<DriverError> {
        if !self.is_some.load(Ordering::Acquire) {
            return None;
        }
        let mut first = lock(&self.first);
        self.is_some.store(false, Ordering::Release);
        first.take()
    }

    /// As a call returns it, which is not made then.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.take() {
            None => Ok(()),
            Some(error) => Err(Error::with_driver(
                error,
                format!(
                    "{error}, when something was dropped before; this call was not made, and can be made again"
                ),
            )),
        }
    }
}
