#![expect(unsafe_code, reason = "copies between devices, from pinned memory to memory that nobody else has")]
//! A storage and its devices: [`Storage::to_device`] and [`Storage::record_stream`].

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::cow::Pin;
use super::dump::Origin;
use super::storage_impl::RESIZABLE;
use super::{Storage, fresh};
use crate::allocator::Allocator;
use crate::data_ptr::DataPtr;
use crate::device::Device;
use crate::error::Result;
use crate::hooks::{Place, hooks, require_hooks};
use crate::stream::Stream;

impl Storage {
    /// [`to_device_with`](Self::to_device_with), with the process's allocator for that type of device.
    ///
    /// # Errors
    /// As [`to_device_with`](Self::to_device_with), and
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when there is no such allocator.
    #[track_caller]
    pub fn to_device(&self, device: Device) -> Result<Self> {
        self.to_device_with(device, fresh::default_allocator(device.device_type())?)
    }

    /// A new, resizable storage on `device`, from `allocator`, with the bytes of this one. When it returns the
    /// copy is done. The device may be the same.
    ///
    /// Copies with a device on one side or both are done by that side's hooks, the source's first.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when hooks are needed and not
    /// there, or `allocator` is of another device;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory that the hooks cannot reach;
    /// else as [`read`](Self::read), and what the allocator or the device reports.
    #[track_caller]
    pub fn to_device_with(&self, device: Device, allocator: Arc<dyn Allocator>) -> Result<Self> {
        let origin = Origin::here();
        let device = with_index(device)?;
        let pin = self.as_impl().pin_bytes()?;
        let size = pin.size();
        let block = fresh::allocate(&*allocator, device, size)?;
        let block = if device == pin.original().device() && device.is_cpu() {
            fresh::copy(&*allocator, &block, pin.original(), size)?;
            block
        } else {
            copy_across(pin, block, size)?
        };
        Ok(Self::from_parts(block, (size, size), Some(allocator.into()), RESIZABLE, origin))
    }

    /// Tells the owner of the memory that work on `stream` uses it (`recordDataPtrOnStream`), so that it is
    /// not given out anew before that work has ended. Memory of the host, or of another type of device than
    /// the stream's, is left alone.
    ///
    /// It needs no access: a kernel may call it while it has some.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) when the type has no hooks; else
    /// what they report.
    pub fn record_stream(&self, stream: Stream) -> Result<()> {
        let device_type = self.device().device_type();
        if device_type != stream.device_type() || self.device().is_cpu() {
            return Ok(());
        }
        let hooks = require_hooks(device_type)?;
        hooks.record_stream(self.as_impl().pin_owner().original(), stream)
    }
}

/// Copies what is pinned to `block`, which is returned, through the hooks of a side that is not the host.
fn copy_across(pin: Pin<'_>, block: DataPtr, bytes: usize) -> Result<DataPtr> {
    let (from, to) = (pin.original().device(), block.device());
    if bytes == 0 || pin.original().as_ptr().is_null() || block.as_ptr().is_null() {
        return Ok(block);
    }
    let by = if from.is_cpu() { to } else { from };
    let hooks = require_hooks(by.device_type())?;
    hooks.check_reachable(pin.original())?;
    hooks.check_reachable(&block)?;
    let stream = hooks.current_stream(by.index().unwrap_or(0))?;
    if to != by {
        // A recycled block may still be in use by what its own device has in its queue.
        synchronize_current(to)?;
    }
    let dst = Place { address: block.as_ptr(), device: to };
    let src = Place { address: pin.original().as_ptr(), device: from };
    // Where the device may still be at it, because it cannot be waited for or somebody panicked, neither side's
    // memory can ever be freed.
    let kept = ManuallyDrop::new((pin, block));
    // SAFETY: the block was allocated for `bytes` bytes and nobody else has it; the pin keeps as many of the
    // source alive and unwritten. Both are kept until the copy is done, or for ever.
    let enqueued = unsafe { hooks.copy(dst, src, bytes, stream) };
    if let Err(error) = enqueued {
        drop(ManuallyDrop::into_inner(kept));
        return Err(error);
    }
    hooks.synchronize_stream(stream)?;
    let (_pin, block) = ManuallyDrop::into_inner(kept);
    Ok(block)
}

fn synchronize_current(device: Device) -> Result<()> {
    match (hooks(device.device_type()), device.index()) {
        (Some(hooks), Some(index)) => hooks.synchronize_stream(hooks.current_stream(index)?),
        _ => Ok(()),
    }
}

/// The device with its index, where the type has more than one.
fn with_index(device: Device) -> Result<Device> {
    match (hooks(device.device_type()), device.index()) {
        (Some(hooks), None) => Ok(Device::new(device.device_type(), hooks.current_device()?)),
        _ => Ok(device),
    }
}
