//! Captures, as far as memory pools have to do with them. See Note [Captures and memory pools].

use super::state::{AsyncPool, Locked};
use crate::alloc::RelaxedMode;
use crate::driver::{CaptureState, DriverError, Status, StreamHandle};
use crate::error::{Error, ErrorKind, Result};

impl AsyncPool {
    /// Says that what streams allocate from here on may be a graph's (`beginAllocateToPool`).
    pub(in crate::alloc) fn begin_allocate_to_pool(&self) -> Result<()> {
        let mut locked = self.lock();
        if locked.capturing {
            return Err(refused("Only one capture at a time is allowed in a process."));
        }
        locked.capturing = true;
        Ok(())
    }

    /// Ends that (`endAllocateToPool`); to be called once the driver's capture has ended. What was to be emptied
    /// meanwhile is.
    pub(in crate::alloc) fn end_allocate_to_pool(&self) -> Result<()> {
        let mut locked = self.lock();
        if !locked.capturing {
            return Err(refused(
                "CudaMallocAsync::notifyCaptureAboutToEnd called, but CudaMallocAsync::capture_underway is false.",
            ));
        }
        locked.capturing = false;
        if std::mem::take(&mut locked.empty_later) {
            locked.free_waiting();
            locked.trim_all()?;
        }
        Ok(())
    }
}

impl<'a> Locked<'a> {
    /// Whether a stream captures. One that is gone does not.
    pub(super) fn captures(&self, stream: StreamHandle) -> Result<bool, DriverError> {
        match self.driver.capture_state(stream) {
            Ok(state) => Ok(state != CaptureState::None),
            Err(DriverError { status: Status::InvalidHandle, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes this thread's calls disturb no capture, where one is under way.
    pub(super) fn relaxed(&self) -> Result<Option<RelaxedMode<'a>>, DriverError> {
        if self.capturing { RelaxedMode::enter(self.driver).map(Some) } else { Ok(None) }
    }
}

fn refused(text: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}
