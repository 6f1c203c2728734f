//! [`CudaEvent`]: a place in the work of a stream, which streams and the host can wait for
//! (`at::cuda::CUDAEvent`).
//!
//! The driver's event is made by the first record that succeeds, on the device of that stream, or when another process
//! is to open it; until it is recorded there is nothing to wait for. All calls can be made from any thread.

use std::fmt;

use c10_core::{Device, DeviceIndex, EventFlags};

use crate::driver::{self, CaptureState, DriverError, EventHandle, IpcHandle, Status, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;
use crate::stream::AsStream;
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
    /// Whether it is recorded by a graph each time that runs.
    is_external: bool,
    created: Mutex<Created>,
}

/// The driver's event.
#[derive(Clone, Copy, Debug, Default)]
struct Created {
    event: Option<EventHandle>,
    /// Whether it was recorded, here or in another process.
    recorded: bool,
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
        Ok(Self { runtime: runtime.clone(), flags, is_external: false, created: Mutex::default() })
    }

    /// An event that a graph records anew whenever it runs, where it is recorded in a capture (`external=True`): others
    /// can wait for that place of the graph. Elsewhere it is as any other.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn external(runtime: &Runtime, flags: EventFlags) -> Result<Self> {
        let mut event = Self::new(runtime, flags)?;
        event.is_external = true;
        Ok(event)
    }

    /// Another process's event, opened on a device (`from_ipc_handle`). What was recorded there is waited for here, and
    /// the other way round. It is there as long as the other process keeps the event, and ends here alone.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device; what the driver reports.
    pub fn from_ipc_handle(runtime: &Runtime, device: DeviceIndex, handle: &IpcHandle) -> Result<Self> {
        runtime.check(device)?;
        runtime.ready()?;
        let flags = EventFlags { interprocess: true, ..EventFlags::default() };
        let event = Self::new(runtime, flags)?;
        let opened = runtime.driver().event_open(device, handle)?;
        *lock(&event.created) = Created { event: Some(opened), recorded: true };
        Ok(event)
    }

    /// What another process needs to open it (`ipc_handle`). An event that is not made yet is, on this thread's current
    /// device, on whose streams it is recorded from then on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event that was not made `interprocess`; what the driver reports.
    pub fn ipc_handle(&self) -> Result<IpcHandle> {
        if !self.flags.interprocess {
            return Err(invalid(
                "only an event that was made with `interprocess` can be opened by other processes",
            ));
        }
        self.runtime.ready()?;
        let mut created = lock(&self.created);
        let event = match created.event {
            Some(event) => event,
            None => *created.event.insert(self.create(self.runtime.current_device())?),
        };
        Ok(self.runtime.driver().event_export(event)?)
    }

    /// Makes it the place after the work that `stream` holds now; a place that it was before is forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the runtime, or of another device than the one it
    /// was recorded on first; what the driver reports. The event is as it was then.
    pub fn record(&self, stream: impl AsStream) -> Result<()> {
        self.runtime.ready()?;
        self.record_if(stream, true)
    }

    /// As [`record`](Self::record), if it was never recorded (`recordOnce`).
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_once(&self, stream: impl AsStream) -> Result<()> {
        self.runtime.ready()?;
        self.record_if(stream, false)
    }

    /// As [`record`](Self::record), whatever a drop has met before.
    pub(crate) fn record_if(&self, stream: impl AsStream, again: bool) -> Result<()> {
        let on = self.runtime.handle(&stream)?;
        let mut created = lock(&self.created);
        match created.event {
            Some(_) if created.recorded && !again => return Ok(()),
            Some(event) if event.device != on.device => {
                return Err(invalid(format!(
                    "the event was first recorded on device {}, and {} is of another",
                    event.device,
                    stream.as_stream()
                )));
            }
            Some(event) => self.record_on(event, on)?,
            None => {
                let event = self.create(on.device)?;
                // Where it fails the event is not bound to the device.
                self.record_on(event, on)
                    .inspect_err(|_| self.runtime.note(self.runtime.driver().event_destroy(event)))?;
                created.event = Some(event);
            }
        }
        created.recorded = true;
        Ok(())
    }

    fn record_on(&self, event: EventHandle, on: StreamHandle) -> Result<(), DriverError> {
        let driver = self.runtime.driver();
        if self.is_external && driver.capture_state(on)? != CaptureState::None {
            driver.event_record_external(event, on)
        } else {
            driver.event_record(event, on)
        }
    }

    /// A new event of the driver, not recorded.
    fn create(&self, device: DeviceIndex) -> Result<EventHandle, DriverError> {
        let EventFlags { timing, blocking, interprocess } = self.flags;
        let flags = driver::EventFlags { timing, blocking_sync: blocking, interprocess };
        self.runtime.driver().event_create(device, flags)
    }

    /// Makes what is issued on `stream` from here on wait for it, on whatever device (`block`). An event that was
    /// never recorded is not waited for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of the runtime; what the driver reports.
    pub fn wait(&self, stream: impl AsStream) -> Result<()> {
        let on = self.runtime.handle(stream)?;
        self.runtime.ready()?;
        match self.recorded() {
            Some(event) => Ok(self.runtime.driver().stream_wait_event(on, event)?),
            None => Ok(()),
        }
    }

    /// Whether the work before it is complete; `true` when it was never recorded.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn query(&self) -> Result<bool> {
        self.runtime.ready()?;
        self.is_done()
    }

    /// As [`query`](Self::query), whatever a drop has met before.
    pub(crate) fn is_done(&self) -> Result<bool> {
        match self.recorded() {
            Some(event) => Ok(self.runtime.driver().event_query(event)?),
            None => Ok(true),
        }
    }

    /// Waits on the host until it is; at once when it was never recorded.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn synchronize(&self) -> Result<()> {
        self.runtime.ready()?;
        self.wait_on_host()
    }

    /// As [`synchronize`](Self::synchronize), whatever a drop has met before.
    pub(crate) fn wait_on_host(&self) -> Result<()> {
        match self.recorded() {
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
            return Err(invalid("Both events must be created with argument 'enable_timing=True'."));
        }
        let (Some(from), Some(to)) = (self.recorded(), end.recorded()) else {
            return Err(invalid("Both events must be recorded before calculating elapsed time."));
        };
        self.runtime.ready()?;
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
                "Both events must be completed before calculating elapsed time.",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// What it was made for.
    pub fn flags(&self) -> EventFlags {
        self.flags
    }

    /// The device that it was made on, if it was.
    pub fn device(&self) -> Option<Device> {
        self.handle().map(|event| Device::cuda(event.device))
    }

    /// The driver's event, if it was made (`cuda_event`). It lives as long as this value.
    pub fn handle(&self) -> Option<EventHandle> {
        lock(&self.created).event
    }

    /// The driver's event, if it stands for anything.
    fn recorded(&self) -> Option<EventHandle> {
        let created = *lock(&self.created);
        created.event.filter(|_| created.recorded)
    }

    /// Ends the driver's event; it is not recorded any more.
    ///
    /// # Errors
    /// What the driver reports. The event is as it was then.
    pub(crate) fn end(&mut self) -> Result<()> {
        let mut created = lock(&self.created);
        if let Some(event) = created.event {
            self.runtime.driver().event_destroy(event)?;
            *created = Created::default();
        }
        Ok(())
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Some(event) = lock(&self.created).event.take() {
            self.runtime.note(self.runtime.driver().event_destroy(event));
        }
    }
}

impl fmt::Display for CudaEvent {
    /// PyTorch's form: `<CudaEvent uninitialized>`, or the driver's value: `<CudaEvent 0x10>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle() {
            Some(event) => write!(f, "<CudaEvent {:#x}>", event.raw),
            None => f.write_str("<CudaEvent uninitialized>"),
        }
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
