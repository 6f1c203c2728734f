#![expect(unsafe_code, reason = "lends streams to the driver, as its own callers promise")]
//! [`Runtime`]: a driver with its streams, and what is current on each thread.

use std::fmt;

use c10_core::{DeviceIndex, DeviceType, Stream};

use crate::driver::{Driver, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::id::StreamKind;
use crate::stream::{Current, StreamPool, current};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A driver, its stream pools, and the current device and streams of each thread. Any number may live in a
/// process; the handle is cheap to clone.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    /// Tells runtimes apart; never used again.
    id: u64,
    alive: Arc<()>,
    driver: Arc<dyn Driver>,
    devices: DeviceIndex,
    pools: Vec<StreamPool>,
}

impl Runtime {
    /// The runtime of a driver. Every thread begins on device 0 and the default streams.
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let devices = driver.device_count();
        Self(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            alive: Arc::new(()),
            driver,
            devices,
            pools: (0..devices).map(|_| StreamPool::default()).collect(),
        }))
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    /// How many devices there are.
    pub fn device_count(&self) -> DeviceIndex {
        self.0.devices
    }

    /// The current device of this thread (`torch.cuda.current_device`).
    pub fn current_device(&self) -> DeviceIndex {
        self.current().device
    }

    /// Makes a device current on this thread (`torch.cuda.set_device`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn set_device(&self, device: DeviceIndex) -> Result<()> {
        self.check(device)?;
        current::set_device(self.0.id, &self.0.alive, self.0.devices, device);
        Ok(())
    }

    /// The current stream of a device on this thread (`torch.cuda.current_stream`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn current_stream(&self, device: DeviceIndex) -> Result<Stream> {
        self.check(device)?;
        Ok(current::stream(self.0.id, &self.0.alive, self.0.devices, device))
    }

    /// Makes a stream the current one of its device on this thread; the current device stays
    /// (`setCurrentCUDAStream`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime.
    pub fn set_current_stream(&self, stream: Stream) -> Result<()> {
        let handle = self.handle(stream)?;
        current::set_stream(self.0.id, &self.0.alive, self.0.devices, stream, handle);
        Ok(())
    }

    /// A stream of a device's pool: 32 for each priority, made when the first is asked for, handed out in turn,
    /// so that the 33rd is the first again (`getStreamFromPool`). 0 is the lowest priority; lower numbers come
    /// first, and what is beyond the device's range is its highest.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a positive priority or when there is no such device; what the driver
    /// reports.
    pub fn stream_from_pool(&self, device: DeviceIndex, priority: i32) -> Result<Stream> {
        self.check(device)?;
        if priority > 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("Expected cuda stream priority to be less than or equal to 0, got {priority}"),
            ));
        }
        let class = priority.unsigned_abs() as usize;
        let kind = self.0.pools[usize::from(device)].next(self.driver().as_ref(), device, class)?;
        Ok(Stream::new(DeviceType::Cuda, device, kind.id()))
    }

    /// A stream that somebody else makes and ends, by the driver's value. The driver knows it: it made it, or
    /// it was [adopted](Self::adopt_stream); work on any other is refused.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device, or for an odd value, which no driver gives.
    pub fn external_stream(&self, handle: StreamHandle) -> Result<Stream> {
        self.check(handle.device)?;
        match StreamKind::of(StreamKind::External(handle.raw).id()) {
            Some(StreamKind::Pool { .. }) | None => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{:#x} is no external stream: its lowest bit marks streams of the pool", handle.raw),
            )),
            Some(kind) => Ok(Stream::new(DeviceType::Cuda, handle.device, kind.id())),
        }
    }

    /// A stream that somebody else made, of another library say, to be used as any other here
    /// (`getStreamFromExternal`). Whoever made it ends it, once it is [given back](Self::disown_stream); memory that
    /// was used on it may live on.
    ///
    /// # Errors
    /// As [`external_stream`](Self::external_stream); what the driver reports.
    ///
    /// # Safety
    /// It is a live stream of the device's primary context, and stays one until it is given back or the driver is
    /// dropped.
    pub unsafe fn adopt_stream(&self, handle: StreamHandle) -> Result<Stream> {
        let stream = self.external_stream(handle)?;
        // SAFETY: as this call's own caller promises.
        unsafe { self.driver().stream_adopt(handle) }?;
        Ok(stream)
    }

    /// Gives a stream back that was [adopted](Self::adopt_stream): work on it is refused from then on, and whoever
    /// made it may end it. Work that it holds still runs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime; what the driver reports.
    pub fn disown_stream(&self, stream: Stream) -> Result<()> {
        Ok(self.driver().stream_disown(self.handle(stream)?)?)
    }

    /// The driver's handle of a stream.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime.
    pub fn handle(&self, stream: Stream) -> Result<StreamHandle> {
        let device = stream.device_index();
        if stream.device_type() != DeviceType::Cuda {
            return Err(unknown(stream));
        }
        self.check(device)?;
        let raw = match StreamKind::of(stream.id()) {
            None => None,
            Some(StreamKind::Default) => Some(0),
            Some(StreamKind::External(raw)) => Some(raw),
            Some(StreamKind::Pool { class, index }) => {
                self.0.pools[usize::from(device)].handle(class, index).map(|handle| handle.raw)
            }
        };
        raw.map(|raw| StreamHandle { device, raw }).ok_or_else(|| unknown(stream))
    }

    /// Tells runtimes apart.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// The current device of this thread, and its current stream.
    #[inline]
    pub(crate) fn current(&self) -> Current {
        current::current(self.0.id, &self.0.alive, self.0.devices)
    }

    pub(crate) fn check(&self, device: DeviceIndex) -> Result<()> {
        if device < self.0.devices {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("Device index value {device} is out of index range [0, {})", self.0.devices),
        ))
    }
}

fn unknown(stream: Stream) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{stream} is not a stream of this runtime"))
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("driver", &self.0.driver.name())
            .field("devices", &self.0.devices)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for pool in &self.pools {
            pool.clear(self.driver.as_ref());
        }
    }
}
