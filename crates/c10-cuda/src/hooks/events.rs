//! [`EventTable`]: the events that hooks have given out as plain values.
//!
//! Numbers are never used again, so that a value of an ended event is known as such. A call takes the event out of
//! the table's lock by a count: one that another thread ends meanwhile lives until the call is over.

use std::collections::BTreeMap;

use c10_core::{DeviceIndex, DeviceType, Event, EventFlags, EventId};

use crate::error::{Error, ErrorKind, Result};
use crate::event::CudaEvent;
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, lock};

/// Live events by number.
#[derive(Debug, Default)]
pub(super) struct EventTable {
    events: Mutex<Events>,
}

#[derive(Debug, Default)]
struct Events {
    last: u64,
    live: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    device: DeviceIndex,
    event: Arc<CudaEvent>,
}

impl EventTable {
    /// A new event of a device.
    pub(super) fn create(&self, runtime: &Runtime, device: DeviceIndex, flags: EventFlags) -> Result<Event> {
        runtime.check(device)?;
        let event = Arc::new(CudaEvent::new(runtime, flags)?);
        let mut events = lock(&self.events);
        events.last += 1;
        let id = events.last;
        events.live.insert(id, Entry { device, event });
        Ok(Event::new(DeviceType::Cuda, device, EventId(id), flags))
    }

    /// The event that a value names.
    pub(super) fn get(&self, event: Event) -> Result<Arc<CudaEvent>> {
        let events = lock(&self.events);
        let entry = events.live.get(&event.id().0).filter(|entry| entry.is(event));
        entry.map(|entry| Arc::clone(&entry.event)).ok_or_else(|| unknown(event))
    }

    /// Ends the event that a value names; it stays when the driver refuses.
    pub(super) fn destroy(&self, event: Event) -> Result<()> {
        let mut events = lock(&self.events);
        let id = event.id().0;
        let entry = events.live.get_mut(&id).filter(|entry| entry.is(event)).ok_or_else(|| unknown(event))?;
        // One that a call has is ended with that call.
        if let Some(event) = Arc::get_mut(&mut entry.event) {
            event.end()?;
        }
        events.live.remove(&id);
        Ok(())
    }
}

impl Entry {
    fn is(&self, event: Event) -> bool {
        event.device_type() == DeviceType::Cuda && event.device_index() == self.device
    }
}

fn unknown(event: Event) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("{event} is not an event of this runtime, or has been ended"),
    )
}
