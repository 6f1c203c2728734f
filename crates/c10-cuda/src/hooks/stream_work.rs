#![expect(unsafe_code, reason = "promises that work has ended when its event says so")]
//! [`StreamWork`]: what a stream held at a moment, as a pending use of host memory.

use c10_core::storage::PendingUse;
use c10_core::{EventFlags, Result, Stream};

use crate::event::CudaEvent;
use crate::runtime::Runtime;

/// All that a stream held when this was made. The event is nobody else's, so that it is recorded once.
#[derive(Debug)]
pub(super) struct StreamWork(CudaEvent);

impl StreamWork {
    pub(super) fn new(runtime: &Runtime, stream: Stream) -> crate::Result<Self> {
        let event = CudaEvent::new(runtime, EventFlags { blocking: true, ..EventFlags::default() })?;
        event.record_if(stream, true)?;
        Ok(Self(event))
    }
}

// SAFETY: the event was recorded when the value was made and never again; the driver says that it is complete
// when the work before it is (R3).
unsafe impl PendingUse for StreamWork {
    fn is_done(&self) -> Result<bool> {
        Ok(self.0.is_done()?)
    }

    fn wait(&self) -> Result<()> {
        Ok(self.0.wait_on_host()?)
    }
}
