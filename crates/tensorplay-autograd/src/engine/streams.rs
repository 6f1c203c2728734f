//! Streams of devices, and who waits for whom.
//!
//! // Note [Streams of gradients]
//! A node runs under the stream that was current in the forward call, so that the backward pass of work on several
//! streams is on several streams too. A gradient that was made on one stream and is used on another crosses by an
//! event, and its memory is recorded on the other. It is brought to the consumer's stream if it is on the consumer's
//! device; if not, it stays on the stream on which it was made until the consumer runs.

use aten::{Result, Tensor};
use c10_core::event::EventFlags;
use c10_core::hooks::{hooks, require_hooks};
use c10_core::{Device, DeviceType, Stream};

/// Whether work on a device is ordered by streams.
#[inline]
pub(super) fn has_streams(device: Device) -> bool {
    !matches!(device.device_type(), DeviceType::Cpu | DeviceType::Meta)
        && hooks(device.device_type()).is_some()
}

/// The stream that is current on a device for this thread.
pub(crate) fn current(device: Device) -> Result<Stream> {
    let hooks = require_hooks(device.device_type())?;
    Ok(hooks.current_stream(device.index().unwrap_or(0))?)
}

/// The stream that is current on the device of a tensor, if it has streams.
#[inline]
pub(crate) fn of_device(device: Device) -> Option<Stream> {
    if has_streams(device) { current(device).ok() } else { None }
}

/// All streams that are current for this thread.
pub(super) fn all_current() -> Vec<Stream> {
    let mut streams = Vec::new();
    for hooks in DeviceType::ALL.into_iter().filter_map(hooks) {
        let count = hooks.device_count().unwrap_or(0);
        streams.extend((0..count).filter_map(|index| hooks.current_stream(index).ok()));
    }
    streams
}

/// What is enqueued on `waiter` from now on waits for what is on `source` now.
pub(super) fn wait(waiter: Stream, source: Stream) -> Result<()> {
    if waiter == source {
        return Ok(());
    }
    let hooks = require_hooks(source.device_type())?;
    let event = hooks.create_event(source.device_index(), EventFlags::default())?;
    let waits = hooks.record_event(event, source).and_then(|()| match waiter.device_type() {
        own if own == source.device_type() => hooks.wait_event(event, waiter),
        // No event is known to two types of devices: the host waits.
        _ => hooks.synchronize_event(event),
    });
    let ended = hooks.destroy_event(event);
    waits?;
    Ok(ended?)
}

/// A gradient that is used on another stream than before.
pub(super) fn move_to(gradient: &Tensor, from: Stream, to: Stream) -> Result<()> {
    if from == to {
        return Ok(());
    }
    wait(to, from)?;
    Ok(gradient.storage().record_stream(to)?)
}

/// Brings what a node on `producer` gave to where it may be used: see Note [Streams of gradients].
pub(super) fn bring(gradient: &Tensor, producer: Option<Stream>, consumer: Option<Stream>) -> Result<Stream> {
    let device = gradient.device();
    let on_device = |stream: &Stream| stream.device() == device;
    let made = match producer.filter(on_device) {
        Some(stream) => stream,
        None => current(device)?,
    };
    let place = consumer.filter(on_device).unwrap_or(made);
    move_to(gradient, made, place)?;
    if let Some(producer) = producer
        && !on_device(&producer)
    {
        // A copy between devices is work of the one that it is copied from.
        wait(place, producer)?;
    }
    Ok(place)
}

/// Lets a node that runs on `consumer` use a gradient that may be used on `stream`.
pub(super) fn hand_over(gradient: &Tensor, stream: Stream, consumer: Option<Stream>) -> Result<()> {
    match consumer {
        Some(consumer) if consumer.device() == stream.device() => move_to(gradient, stream, consumer),
        _ => {
            move_to(gradient, stream, current(gradient.device())?)?;
            consumer.map_or(Ok(()), |consumer| wait(consumer, stream))
        }
    }
}

/// What this thread enqueues from now on comes after the gradients of leaves, which are used on the streams beside
/// them.
pub(super) fn join(leaves: Vec<(Stream, Option<Tensor>)>) -> Result<()> {
    let mut waited: Vec<Stream> = Vec::new();
    for (stream, gradient) in leaves {
        let current = current(stream.device())?;
        if current == stream {
            continue;
        }
        if !waited.contains(&stream) {
            wait(current, stream)?;
            waited.push(stream);
        }
        if let Some(gradient) = gradient {
            gradient.storage().record_stream(current)?;
        }
    }
    Ok(())
}
