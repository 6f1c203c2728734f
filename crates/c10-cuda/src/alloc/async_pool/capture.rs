//! Captures, as far as memory pools have to do with them. See Note [Captures and memory pools].

use super::state::{AsyncPool, Locked};
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
        // The runtime's capture may still be open, to its books: then what is left comes when it is not.
        if let Some(_quiet) = locked.quiet() {
            locked.empty_if_waiting()?;
        }
        Ok(())
    }
}

impl Locked<'_> {
    /// Whether a stream captures. One that is gone does not.
    pub(super) fn captures(&self, stream: StreamHandle) -> Result<bool, DriverError> {
        match self.driver.capture_state(stream) {
            Ok(state) => Ok(state != CaptureState::None),
            Err(DriverError { status: Status::InvalidHandle, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn refused(text: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}
