//! Events that freed memory waits for: those to be used again, and queues of those that were recorded, by stream.

use std::collections::VecDeque;

use crate::driver::{Driver, DriverError, EventFlags, EventHandle, StreamHandle};

/// Events to be used again, of whatever device.
#[derive(Debug, Default)]
pub(crate) struct IdleEvents(Vec<EventHandle>);

impl IdleEvents {
    /// An event that stands for all that the stream holds now.
    pub(crate) fn record(
        &mut self,
        driver: &dyn Driver,
        stream: StreamHandle,
    ) -> Result<EventHandle, DriverError> {
        let idle = match self.0.last() {
            // The usual case: all of one device.
            Some(last) if last.device == stream.device => self.0.pop(),
            _ => {
                let idle = self.0.iter().rposition(|event| event.device == stream.device);
                idle.map(|at| self.0.swap_remove(at))
            }
        };
        let event = match idle {
            Some(event) => event,
            None => driver.event_create(stream.device, EventFlags::default())?,
        };
        driver.event_record(event, stream).map(|()| event).inspect_err(|_| self.0.push(event))
    }

    /// Keeps an event that nobody waits for.
    pub(crate) fn keep(&mut self, event: EventHandle) {
        self.0.push(event);
    }

    /// All of them; none are kept from here on.
    pub(crate) fn take(&mut self) -> Vec<EventHandle> {
        std::mem::take(&mut self.0)
    }
}

/// Events and what waits for each, in the order of their records.
pub(crate) type EventQueue<T> = VecDeque<(EventHandle, T)>;

/// Those of each stream that some were recorded on.
pub(crate) type EventQueues<T> = Vec<(StreamHandle, EventQueue<T>)>;

/// Puts an event behind those of its stream.
pub(crate) fn enqueue<T>(queues: &mut EventQueues<T>, stream: StreamHandle, event: EventHandle, waiting: T) {
    let at = match queues.binary_search_by_key(&stream, |(s, _)| *s) {
        Ok(at) => at,
        Err(at) => {
            queues.insert(at, (stream, VecDeque::new()));
            at
        }
    };
    queues[at].1.push_back((event, waiting));
}

/// Takes those out of a queue that are over, in one pass: what comes of an event may lie anywhere in it. The others stay
/// in their order, and so does all that is behind an error.
pub(crate) fn take_over<T>(
    queue: &mut EventQueue<T>,
    mut is_over: impl FnMut(EventHandle, &T) -> Result<bool, DriverError>,
) -> Result<(), DriverError> {
    let mut result = Ok(());
    queue.retain(|(event, waiting)| {
        if result.is_err() {
            return true;
        }
        match is_over(*event, waiting) {
            Ok(is_over) => !is_over,
            Err(error) => {
                result = Err(error);
                true
            }
        }
    });
    result
}

#[cfg(test)]
mod tests;
