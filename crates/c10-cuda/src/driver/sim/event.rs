//! Events: an event is a place in a stream's queue.

use c10_core::DeviceIndex;

use super::capture::Captured;
use super::process::ProcessId;
use super::slab::Id;
use super::state::State;
use super::work::Item;
use crate::driver::{EventFlags, EventHandle, Status, StreamHandle};

/// An event.
#[derive(Debug)]
pub(super) struct EventState {
    device: DeviceIndex,
    process: ProcessId,
    flags: EventFlags,
    pub(super) recorded: Option<Record>,
}

/// What an event stands for.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Eager(Recorded),
    Captured(Captured),
}

/// A place in a stream's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) stream: Id,
    /// The place of the record itself.
    pub(super) place: u64,
    /// When the work before it is over, in nanoseconds of virtual time.
    pub(super) end_ns: u64,
}

impl State {
    #[inline]
    fn event_id(&self, handle: EventHandle) -> Result<Id, Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        match self.events.get(id) {
            Some(event) if (event.device, event.process) == (handle.device, self.process) => Ok(id),
            _ => Err(Status::InvalidHandle),
        }
    }

    pub(super) fn event(&self, handle: EventHandle) -> Result<&EventState, Status> {
        let id = self.event_id(handle)?;
        self.events.get(id).ok_or(Status::InvalidHandle)
    }

    pub(super) fn event_create(
        &mut self,
        device: DeviceIndex,
        flags: EventFlags,
    ) -> Result<EventHandle, Status> {
        self.device(device)?;
        if flags.interprocess && flags.timing {
            return Err(Status::InvalidValue);
        }
        let event = EventState { device, process: self.process, flags, recorded: None };
        let id = self.events.insert(event).ok_or(Status::OutOfMemory)?;
        Ok(EventHandle { device, raw: id.raw() })
    }

    pub(super) fn event_destroy(&mut self, handle: EventHandle) -> Result<(), Status> {
        let id = self.event_id(handle)?;
        self.events.remove(id);
        self.watch(|races| races.event_ended(handle));
        Ok(())
    }

    pub(super) fn event_record(&mut self, handle: EventHandle, stream: StreamHandle) -> Result<(), Status> {
        let id = self.event_id(handle)?;
        let on = self.stream_id(stream)?;
        if handle.device != stream.device {
            return Err(Status::InvalidHandle);
        }
        let record = match self.captured_record(on)? {
            Some(captured) => Record::Captured(captured),
            None => {
                self.watch(|races| races.records(on, stream.device, handle));
                let (place, end_ns) = self.issue(on, Item::Record, 0, 0);
                Record::Eager(Recorded { stream: on, place, end_ns })
            }
        };
        let event = self.events.get_mut(id).ok_or(Status::InvalidHandle)?;
        event.recorded = Some(record);
        Ok(())
    }

    /// Whether the work that an event stands for is complete. A stream that is gone has none left.
    pub(super) fn is_complete(&self, recorded: Recorded) -> bool {
        self.streams.get(recorded.stream).is_none_or(|s| s.done >= recorded.place)
    }

    /// The place that an event stands for, where it is not one in a capture.
    fn eager(&self, handle: EventHandle) -> Result<Option<Recorded>, Status> {
        match &self.event(handle)?.recorded {
            None => Ok(None),
            Some(Record::Eager(recorded)) => Ok(Some(*recorded)),
            Some(Record::Captured(_)) => Err(Status::CapturedEvent),
        }
    }

    pub(super) fn event_query(&mut self, handle: EventHandle) -> Result<bool, Status> {
        let recorded = self.eager(handle)?;
        self.forbid_in_capture()?;
        let ready = recorded.is_none_or(|recorded| self.is_complete(recorded));
        if ready {
            self.watch(|races| races.host_saw_event(handle));
        }
        Ok(ready)
    }

    pub(super) fn event_synchronize(&mut self, handle: EventHandle) -> Result<(), Status> {
        let recorded = self.eager(handle)?;
        self.forbid_in_capture()?;
        if let Some(recorded) = recorded {
            self.run_to(recorded.stream, recorded.place);
            self.clock.waited_until(recorded.end_ns);
        }
        self.watch(|races| races.host_saw_event(handle));
        self.release_beyond_threshold(handle.device)?;
        self.tell_fault(handle.device)
    }

    pub(super) fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32, Status> {
        let (first, last) = (self.event(start)?, self.event(end)?);
        if !(first.flags.timing && last.flags.timing) || first.device != last.device {
            return Err(Status::InvalidHandle);
        }
        let (Some(from), Some(to)) = (self.eager(start)?, self.eager(end)?) else {
            return Err(Status::InvalidHandle);
        };
        if !(self.is_complete(from) && self.is_complete(to)) {
            return Err(Status::NotReady);
        }
        // Whole nanoseconds first: the difference of two large times keeps its digits.
        let ns = i128::from(to.end_ns) - i128::from(from.end_ns);
        Ok((ns as f64 / 1e6) as f32)
    }
}
