//! Elements on devices that have no kernels here: they go through the host, by the device's hooks.
//!
//! This is how a tensor of any device is made, filled, copied and read with no edge to the crate that brings
//! the device. Whole storages are moved: a backend that wants more registers its own `copy_`.

use c10_core::hooks::require_hooks;
use c10_core::{Device, EventFlags, Storage, Stream};

use crate::error::Result;
use crate::tensor::{Geometry, New, Tensor};

/// A tensor of the host with the elements of one of any device: the same, if it is there already.
pub(crate) fn to_host(tensor: &Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() {
        return Ok(tensor.clone());
    }
    let geometry = tensor.geometry();
    with_storage(&geometry, tensor, geometry.storage.to_device(Device::CPU)?)
}

/// Copies between tensors of one shape, one of which at least is on a device.
pub(crate) fn copy(dest: &Tensor, src: &Tensor) -> Result<()> {
    if moves_whole(dest, src) {
        return move_storage(dest, &src.storage());
    }
    let src = to_host(src)?;
    if dest.device().is_cpu() {
        return super::copy(dest, &src);
    }
    write_through_host(dest, |staged| super::copy(staged, &src))
}

/// Lets `write` write to a tensor of the host in the place of `dest`, and brings the bytes to the device.
/// Where `dest` is a part of its storage the rest goes there and back, so that what others write to that part
/// meanwhile may be lost.
pub(crate) fn write_through_host(dest: &Tensor, write: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    let geometry = dest.geometry();
    let staged = if fills_storage(&geometry) {
        New::strided(geometry.sizes.clone(), geometry.strides.clone(), dest.dtype(), Device::CPU).make()?
    } else {
        with_storage(&geometry, dest, geometry.storage.to_device(Device::CPU)?)?
    };
    write(&staged)?;
    move_storage(dest, &staged.storage())
}

fn with_storage(geometry: &Geometry, like: &Tensor, storage: Storage) -> Result<Tensor> {
    Tensor::from_storage(storage, like.dtype(), &geometry.sizes, &geometry.strides, geometry.storage_offset)
}

/// The elements are all that the storage holds.
fn fills_storage(geometry: &Geometry) -> bool {
    geometry.storage_offset == 0
        && geometry.flags.is_non_overlapping_and_dense()
        && geometry.end_bytes == geometry.storage.nbytes()
}

fn moves_whole(dest: &Tensor, src: &Tensor) -> bool {
    let (to, from) = (dest.geometry(), src.geometry());
    dest.dtype() == src.dtype()
        && to.sizes == from.sizes
        && to.strides == from.strides
        && fills_storage(&to)
        && fills_storage(&from)
}

/// Enqueues the copy on the current stream of the side that is a device, the source's first. Whoever uses the
/// host's side waits for it. Between two devices the current streams wait for each other: what the destination's
/// holds comes before the copy, and what it is given later comes after it.
fn move_storage(dest: &Tensor, src: &Storage) -> Result<()> {
    let to = dest.storage();
    let by = if src.device().is_cpu() { to.device() } else { src.device() };
    if to.nbytes() == 0 {
        return Ok(());
    }
    let stream = current_stream(by)?;
    if to.device().is_cpu() || to.device() == by {
        return Ok(to.copy_from_async(src, stream)?);
    }
    let receiver = current_stream(to.device())?;
    wait(stream, receiver)?;
    to.copy_from_async(src, stream)?;
    wait(receiver, stream)
}

fn current_stream(device: Device) -> Result<Stream> {
    Ok(require_hooks(device.device_type())?.current_stream(device.index().unwrap_or(0))?)
}

/// What is enqueued on `waiter` from now on waits for what is on `source` now.
fn wait(waiter: Stream, source: Stream) -> Result<()> {
    let hooks = require_hooks(source.device_type())?;
    if waiter.device_type() != source.device_type() {
        // No event is known to two types of devices: the host waits.
        return Ok(hooks.synchronize_stream(source)?);
    }
    let event = hooks.create_event(source.device_index(), EventFlags::default())?;
    let waits = hooks.record_event(event, source).and_then(|()| hooks.wait_event(event, waiter));
    let ended = hooks.destroy_event(event);
    waits?;
    Ok(ended?)
}
