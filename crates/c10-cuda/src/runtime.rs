#![expect(unsafe_code, reason = "lends streams to the driver, as its own callers promise")]
//! [`Runtime`]: a driver with its streams, and what is current on each thread.

use std::fmt;

use c10_core::{DeviceIndex, DeviceType, Stream};

use crate::captures::Captures;
use crate::devices::DeviceFacts;
use crate::driver::{Driver, DriverError, StreamHandle};
use crate::drop_errors::DropErrors;
use crate::error::{Error, ErrorKind, Result};
use crate::generator::SharedState;
use crate::stream::id::StreamKind;
use crate::stream::{AsStream, Current, StreamPool, StreamUser, current};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Weak, lock};

/// A driver, its stream pools, and the current device and streams of each thread. Any number may live in a
/// process; the handle is cheap to clone.
///
/// What the driver refuses when an event, a graph or an allocator is dropped is kept here, the first of several, and
/// the next call that asks the driver for something returns it instead ([`take_drop_error`](Self::take_drop_error)
/// takes it by hand).
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    /// Tells runtimes apart; never used again.
    id: u64,
    alive: Arc<()>,
    driver: Arc<dyn Driver>,
    devices: DeviceIndex,
    pools: Vec<StreamPool>,
    facts: DeviceFacts,
    captures: Arc<Captures>,
    /// The default generators, by device.
    generators: Vec<SharedState>,
    drop_errors: Arc<DropErrors>,
    /// Whose memory streams use.
    users: Mutex<Vec<Weak<dyn StreamUser>>>,
}

impl Runtime {
    /// The runtime of a driver. Every thread begins on device 0 and the default streams.
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let devices = driver.device_count();
        Self(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            alive: Arc::new(()),
            devices,
            pools: (0..devices).map(|_| StreamPool::default()).collect(),
            facts: DeviceFacts::new(devices),
            captures: Arc::clone(driver.captures()),
            driver,
            generators: (0..devices).map(|_| SharedState::default()).collect(),
            drop_errors: Arc::default(),
            users: Mutex::default(),
        }))
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    /// How many devices there are; 0 where there is none, which is no error.
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
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime, or the per-thread default stream.
    pub fn set_current_stream(&self, stream: impl AsStream) -> Result<()> {
        let handle = self.owning_handle(&stream)?;
        current::set_stream(self.0.id, &self.0.alive, self.0.devices, stream.as_stream(), handle);
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
        self.ready()?;
        let class = priority.unsigned_abs() as usize;
        let pool = &self.0.pools[usize::from(device)];
        let kind = pool.next(self.driver().as_ref(), device, class, &self.0.drop_errors)?;
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
    /// dropped. Where it has the value of a stream that was given back and has ended, the work of that one is over.
    pub unsafe fn adopt_stream(&self, handle: StreamHandle) -> Result<Stream> {
        let stream = self.external_stream(handle)?;
        // SAFETY: as this call's own caller promises.
        unsafe { self.driver().stream_adopt(handle) }?;
        Ok(stream)
    }

    /// Gives a stream back that was [adopted](Self::adopt_stream): work on it is refused from then on, and whoever
    /// made it may end it. Work that it holds still runs, and memory that it used waits for that.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime; what the driver reports.
    pub fn disown_stream(&self, stream: impl AsStream) -> Result<()> {
        let handle = self.handle(stream)?;
        self.ready()?;
        tell_users(&self.0.users, &[handle])?;
        Ok(self.driver().stream_disown(handle)?)
    }

    /// The driver's handle of a stream.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it is no stream of this runtime.
    #[inline]
    pub fn handle(&self, stream: impl AsStream) -> Result<StreamHandle> {
        match stream.known() {
            Some((runtime, handle)) if runtime.0.id == self.0.id => Ok(handle),
            Some(_) => Err(of_another(stream.as_stream())),
            None => self.look_up(stream.as_stream()),
        }
    }

    fn look_up(&self, stream: Stream) -> Result<StreamHandle> {
        let device = stream.device_index();
        if stream.device_type() != DeviceType::Cuda {
            return Err(unknown(stream));
        }
        self.check(device)?;
        let raw = match StreamKind::of(stream.id()) {
            None => None,
            Some(StreamKind::Default) => Some(0),
            Some(StreamKind::PerThread) => Some(StreamHandle::per_thread_default(device).raw),
            Some(StreamKind::External(raw)) => Some(raw),
            Some(StreamKind::Pool { class, index }) => {
                self.0.pools[usize::from(device)].handle(class, index).map(|handle| handle.raw)
            }
        };
        raw.map(|raw| StreamHandle { device, raw }).ok_or_else(|| unknown(stream))
    }

    /// The handle of a stream for which memory can be kept: the per-thread default stream is another on each thread.
    pub(crate) fn owning_handle(&self, stream: impl AsStream) -> Result<StreamHandle> {
        let handle = self.handle(stream)?;
        if handle == StreamHandle::per_thread_default(handle.device) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the per-thread default stream is another stream on each thread, and memory is kept by stream: \
                 use a stream of the pool, or the default stream",
            ));
        }
        Ok(handle)
    }

    /// The first error that the driver met when something was dropped, since the last was returned.
    pub fn take_drop_error(&self) -> Option<DriverError> {
        self.0.drop_errors.take()
    }

    /// What every call does first that asks the driver for something: returns what a drop could not.
    #[inline]
    pub(crate) fn ready(&self) -> Result<()> {
        self.0.drop_errors.check()
    }

    /// Keeps the error of a drop.
    pub(crate) fn note<T>(&self, result: Result<T, DriverError>) {
        self.0.drop_errors.note(result);
    }

    pub(crate) fn drop_errors(&self) -> &Arc<DropErrors> {
        &self.0.drop_errors
    }

    /// The captures that allocators of the driver were told of.
    pub(crate) fn captures(&self) -> &Arc<Captures> {
        &self.0.captures
    }

    pub(crate) fn generators(&self) -> &[SharedState] {
        &self.0.generators
    }

    /// Takes note of memory that streams use, to be told when they end.
    pub(crate) fn add_user(&self, user: Weak<dyn StreamUser>) {
        let mut users = lock(&self.0.users);
        users.retain(|user| user.strong_count() > 0);
        users.push(user);
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.0.facts
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

/// Tells all whose memory streams use that these end.
fn tell_users(
    users: &Mutex<Vec<Weak<dyn StreamUser>>>,
    streams: &[StreamHandle],
) -> std::result::Result<(), DriverError> {
    let users: Vec<_> = lock(users).iter().filter_map(Weak::upgrade).collect();
    let mut result = Ok(());
    for user in users {
        // Each may fail for itself.
        for stream in streams {
            result = result.and(user.before_end(*stream));
        }
    }
    result
}

#[cold]
fn of_another(stream: Stream) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{stream} is a stream of another runtime"))
}

#[cold]
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
        for pool in &mut self.pools {
            // Memory that outlives the runtime may have been used there.
            self.drop_errors.note(tell_users(&self.users, &pool.handles()));
            pool.clear(self.driver.as_ref(), &self.drop_errors);
        }
    }
}
