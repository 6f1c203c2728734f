//! [`CudaEvent`]: a place in the work of a stream, which streams and the host can wait for
//! (`at::cuda::CUDAEvent`).
//!
//! The driver's event is made by the first record that succeeds, on the device of that stream; until then there
//! is nothing to wait for. All calls can be made from any thread.

use std::fmt;

use c10_core::{Device, EventFlags, Stream};

use crate::driver::{self, DriverError, EventHandle, Status, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, lock};

/// An event, ended when it is dropped. What waits for it already still does.
///
/// ```
/// use c10_core::EventFlags;
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CudaEvent, Runtime};
///
/// let runtime = Runtime::new(SimDriver::new(SimConfig::with_bytes(1 << 30)));
/// let (producer, consumer) = (runtime.stream_from_pool(0, 0)?, runtime.stream_from_pool(0, 0)?);
/// let event = CudaEvent::new(&runtime, EventFlags::default())?;
/// event.record(producer)?;
/// event.wait(consumer)?;
/// event.synchronize()?;
/// assert!(event.query()?);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
pub struct CudaEvent {
    runtime: Runtime,
    flags: EventFlags,
    /// The driver's event, from the first record on.
    created: Mutex<Option<EventHandle>>,
}

impl CudaEvent {
    /// An event that is not recorded. It calls no driver.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event of several processes that takes the time, which CUDA has not.
    pub fn new(runtime: &Runtime, flags: EventFlags) -> Result<Self> {
        if flags.interprocess && flags.timing {
            return Err(invalid("an event that other processes can open takes no time"));
        }
        Ok(Self { runtime: runtime.clone(), flags, created: Mutex::new(None) })
    }

    /// Makes it the place after the work that `stream` holds now; a place that it was before is forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the runtime, or of another device than the one it
    /// was recorded on first; what the driver reports. The event is as it was then.
    pub fn record(&self, stream: Stream) -> Result<()> {
        self.record_if(stream, true)
    }

    /// As [`record`](Self::record), if it was never recorded (`recordOnce`).
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_once(&self, stream: Stream) -> Result<()> {
        self.record_if(stream, false)
    }

    fn record_if(&self, stream: Stream, again: bool) -> Result<()> {
        let on = self.runtime.handle(stream)?;
        let mut created = lock(&self.created);
        match *created {
            None => *created = Some(self.create(on)?),
            Some(_) if !again => {}
            Some(event) if event.device != on.device => {
                return Err(invalid(format!(
                    "the event was first recorded on device {}, and {stream} is of another",
                    event.device
                )));
            }
            Some(event) => self.runtime.driver().event_record(event, on)?,
        }
        Ok(())
    }

    /// A new event of the driver, recorded.
    fn create(&self, on: StreamHandle) -> Result<EventHandle, DriverError> {
        let EventFlags { timing, blocking, interprocess } = self.flags;
        let flags = driver::EventFlags { timing, blocking_sync: blocking, interprocess };
        let driver = self.runtime.driver();
        let event = driver.event_create(on.device, flags)?;
        driver.event_record(event, on).inspect_err(|_| {
            // There is an error to report already.
            let _ = driver.event_destroy(event);
        })?;
        Ok(event)
    }

    /// Makes what is issued on `stream` from here on wait for it, on whatever device (`block`). An event that was
    /// never recorded is not waited for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the runtime; what the driver reports.
    pub fn wait(&self, stream: Stream) -> Result<()> {
        let on = self.runtime.handle(stream)?;
        match self.handle() {
            Some(event) => Ok(self.runtime.driver().stream_wait_event(on, event)?),
            None => Ok(()),
        }
    }

    /// Whether the work before it is complete; `true` when it was never recorded.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn query(&self) -> Result<bool> {
        match self.handle() {
            Some(event) => Ok(self.runtime.driver().event_query(event)?),
            None => Ok(true),
        }
    }

    /// Waits on the host until it is; at once when it was never recorded.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn synchronize(&self) -> Result<()> {
        match self.handle() {
            Some(event) => {
                let driver = self.runtime.driver();
                let waited = driver.event_synchronize(event);
                driver.settle();
                Ok(waited?)
            }
            None => Ok(()),
        }
    }

    /// Milliseconds from this event to `end`; negative when `end` came first (`elapsed_time`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when one was made without timing or was never recorded, or they are not of
    /// one device; [`ErrorKind::NotReady`] when the work before one is not complete; what the driver reports.
    pub fn elapsed_ms(&self, end: &Self) -> Result<f64> {
        if !(self.flags.timing && end.flags.timing) {
            return Err(invalid("time passes only between events that were made with `timing`"));
        }
        let (Some(from), Some(to)) = (self.handle(), end.handle()) else {
            return Err(invalid("time passes only between events that have been recorded"));
        };
        if from.device != to.device || !Arc::ptr_eq(self.runtime.driver(), end.runtime.driver()) {
            return Err(invalid(format!(
                "no clock is common to events of device {} and device {}",
                from.device, to.device
            )));
        }
        match self.runtime.driver().event_elapsed_ms(from, to) {
            Ok(ms) => Ok(f64::from(ms)),
            Err(DriverError { status: Status::NotReady, .. }) => Err(Error::new(
                ErrorKind::NotReady,
                "time is known only between events whose work is complete: wait for both",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// What it was made for.
    pub fn flags(&self) -> EventFlags {
        self.flags
    }

    /// The device that it was recorded on, if it was.
    pub fn device(&self) -> Option<Device> {
        self.handle().map(|event| Device::cuda(event.device))
    }

    /// The driver's event, if it was recorded (`cuda_event`). It lives as long as this value.
    pub fn handle(&self) -> Option<EventHandle> {
        *lock(&self.created)
    }

    /// Ends the driver's event; it is not recorded any more.
    ///
    /// # Errors
    /// What the driver reports. The event is as it was then.
    pub(crate) fn end(&mut self) -> Result<()> {
        let mut created = lock(&self.created);
        if let Some(event) = *created {
            self.runtime.driver().event_destroy(event)?;
            *created = None;
        }
        Ok(())
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // A driver that is gone has ended its events already; there is nobody to tell of anything else.
        let _ = self.end();
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvent").field("handle", &self.handle()).field("flags", &self.flags).finish()
    }
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
