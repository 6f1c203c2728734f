//! Guards of the calling thread's current device and streams: [`DeviceGuard`], [`StreamGuard`],
//! [`MultiStreamGuard`], and the closure forms [`with_device`] and [`with_stream`], which are preferred
//! since they cannot end out of order.
//!
//! A guard restores what it saved when it was made, whatever happened in between. It stays on its thread:
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<c10_core::guard::DeviceGuard>();
//! ```
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<c10_core::guard::StreamGuard>();
//! ```
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<c10_core::guard::MultiStreamGuard>();
//! ```
//!
//! An error while restoring is not reported: a drop has nobody to report to, and the next call on the device
//! meets the same fault.

use std::marker::PhantomData;
use std::sync::MutexGuard;

use crate::device::{Device, DeviceIndex, DeviceType};
use crate::error::Result;
use crate::hooks::{DeviceHooks, require_hooks};
use crate::stream::Stream;

/// Of a value that belongs to one thread, though others may look at it.
type NotSend = PhantomData<MutexGuard<'static, ()>>;

/// Makes a device current until it is dropped (`c10::DeviceGuard`).
///
/// For the host and for `meta` it does nothing, and so for a device without an index, which stands for the
/// current one.
#[must_use = "the device before is restored as soon as the guard is dropped"]
#[derive(Debug)]
pub struct DeviceGuard {
    saved: Option<(&'static dyn DeviceHooks, DeviceIndex)>,
    not_send: NotSend,
}

impl DeviceGuard {
    /// Makes `device` current.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when its type has no hooks; else
    /// as [`DeviceHooks::set_device`]. The current device has not changed then.
    pub fn new(device: Device) -> Result<Self> {
        let saved = match (has_hooks(device.device_type()), device.index()) {
            (true, Some(index)) => {
                let hooks = require_hooks(device.device_type())?;
                Some((hooks, hooks.exchange_device(index)?))
            }
            _ => None,
        };
        Ok(Self { saved, not_send: PhantomData })
    }

    /// The device that becomes current again at the end, if the guard changes any.
    pub fn original_device(&self) -> Option<Device> {
        self.saved.map(|(hooks, index)| Device::new(hooks.device_type(), index))
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        if let Some((hooks, index)) = self.saved {
            let _ = hooks.set_device(index);
        }
    }
}

/// A [`DeviceGuard`] that may guard nothing, and can be set later (`c10::OptionalDeviceGuard`).
#[must_use = "the device before is restored as soon as the guard is dropped"]
#[derive(Debug, Default)]
pub struct OptionalDeviceGuard(Option<DeviceGuard>);

impl OptionalDeviceGuard {
    /// Makes `device` current, if there is one.
    ///
    /// # Errors
    /// As [`DeviceGuard::new`].
    pub fn new(device: Option<Device>) -> Result<Self> {
        device.map(DeviceGuard::new).transpose().map(Self)
    }

    /// Restores what the guard saved, if anything, and then makes `device` current (`reset_device`).
    ///
    /// # Errors
    /// As [`DeviceGuard::new`]; the guard is empty then.
    pub fn set_device(&mut self, device: Device) -> Result<()> {
        self.reset();
        self.0 = Some(DeviceGuard::new(device)?);
        Ok(())
    }

    /// Restores what the guard saved, if anything, and leaves it empty.
    pub fn reset(&mut self) {
        self.0 = None;
    }

    /// The device that becomes current again at the end, if the guard changes any.
    pub fn original_device(&self) -> Option<Device> {
        self.0.as_ref().and_then(DeviceGuard::original_device)
    }
}

/// Makes a stream current on its device, and its device current, until it is dropped (`c10::StreamGuard`).
#[must_use = "the stream before is restored as soon as the guard is dropped"]
#[derive(Debug)]
pub struct StreamGuard {
    // Dropped after `drop` has restored the stream: PyTorch's order.
    device: DeviceGuard,
    hooks: &'static dyn DeviceHooks,
    original: Stream,
    current: Stream,
}

impl StreamGuard {
    /// Makes `stream` and its device current.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when its type has no hooks; else
    /// as [`DeviceHooks::set_device`] and [`DeviceHooks::set_current_stream`]. Nothing has changed then.
    pub fn new(stream: Stream) -> Result<Self> {
        let hooks = require_hooks(stream.device_type())?;
        let device = DeviceGuard::new(stream.device())?;
        let original = hooks.exchange_stream(stream)?;
        Ok(Self { device, hooks, original, current: stream })
    }

    /// The stream that the guard made current.
    pub fn current_stream(&self) -> Stream {
        self.current
    }

    /// The stream that becomes current again on [`current_stream`](Self::current_stream)'s device.
    pub fn original_stream(&self) -> Stream {
        self.original
    }

    /// The device that becomes current again.
    pub fn original_device(&self) -> Option<Device> {
        self.device.original_device()
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let _ = self.hooks.set_current_stream(self.original);
    }
}

/// Makes several streams current, each on its device, until it is dropped (`c10::MultiStreamGuard`). The
/// current device stays.
#[must_use = "the streams before are restored as soon as the guard is dropped"]
#[derive(Debug, Default)]
pub struct MultiStreamGuard {
    originals: Vec<(&'static dyn DeviceHooks, Stream)>,
    not_send: NotSend,
}

impl MultiStreamGuard {
    /// Makes each of `streams` current; of several on one device, the last.
    ///
    /// # Errors
    /// As [`StreamGuard::new`]. Nothing has changed then.
    pub fn new(streams: &[Stream]) -> Result<Self> {
        // What was changed before an error is restored by the drop of the guard so far.
        let mut guard = Self::default();
        for &stream in streams {
            let hooks = require_hooks(stream.device_type())?;
            guard.originals.push((hooks, hooks.exchange_stream(stream)?));
        }
        Ok(guard)
    }

    /// The streams that become current again.
    pub fn original_streams(&self) -> impl Iterator<Item = Stream> {
        self.originals.iter().map(|&(_, stream)| stream)
    }
}

impl Drop for MultiStreamGuard {
    fn drop(&mut self) {
        // Backwards, so that of several streams on one device the one saved first is restored last.
        for (hooks, stream) in self.originals.drain(..).rev() {
            let _ = hooks.set_current_stream(stream);
        }
    }
}

/// Runs `f` with `device` current.
///
/// # Errors
/// As [`DeviceGuard::new`]; `f` has not run then.
pub fn with_device<R>(device: Device, f: impl FnOnce() -> R) -> Result<R> {
    let _guard = DeviceGuard::new(device)?;
    Ok(f())
}

/// Runs `f` with `stream` and its device current.
///
/// # Errors
/// As [`StreamGuard::new`]; `f` has not run then.
pub fn with_stream<R>(stream: Stream, f: impl FnOnce() -> R) -> Result<R> {
    let _guard = StreamGuard::new(stream)?;
    Ok(f())
}

fn has_hooks(device_type: DeviceType) -> bool {
    !matches!(device_type, DeviceType::Cpu | DeviceType::Meta)
}
