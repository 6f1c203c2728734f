//! [`Launches`]: how far the launches of a graph are.

use c10_core::DeviceIndex;

use crate::driver::{Driver, DriverError, EventFlags, EventHandle, StreamHandle};

/// The last launch on each stream.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    /// An event behind the last launch on each stream.
    pub(crate) last: Vec<(StreamHandle, EventHandle)>,
    /// Whether one was issued behind which no event could be recorded: then only its device can be waited for.
    pub(crate) is_unknown: bool,
}

impl Launches {
    /// Makes a stream wait for the launches on all others, and gives the event for the next one there.
    pub(super) fn prepare(
        &mut self,
        driver: &dyn Driver,
        on: StreamHandle,
    ) -> Result<EventHandle, DriverError> {
        for (stream, event) in &self.last {
            if *stream != on {
                driver.stream_wait_event(on, *event)?;
            }
        }
        if let Some((_, event)) = self.last.iter().find(|(stream, _)| *stream == on) {
            return Ok(*event);
        }
        let event = driver.event_create(on.device, EventFlags::default())?;
        self.last.push((on, event));
        Ok(event)
    }

    /// Notes a launch that has just been issued.
    pub(super) fn issued(
        &mut self,
        driver: &dyn Driver,
        on: StreamHandle,
        event: EventHandle,
    ) -> Result<(), DriverError> {
        driver.event_record(event, on).inspect_err(|_| self.is_unknown = true)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Whether all are done.
    pub(crate) fn are_done(&self, driver: &dyn Driver) -> Result<bool, DriverError> {
        if self.is_unknown {
            return Ok(false);
        }
        for (_, event) in &self.last {
            if !driver.event_query(*event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for all.
    pub(crate) fn wait(&self, driver: &dyn Driver, device: DeviceIndex) -> Result<(), DriverError> {
        if self.is_unknown {
            return driver.device_synchronize(device);
        }
        self.last.iter().try_for_each(|(_, event)| driver.event_synchronize(*event))
    }
}
