//! Events: an event is a place in a stream's queue.

use c10_core::DeviceIndex;

use super::capture::Captured;
use super::ipc;
use super::node::NodeWork;
use super::process::ProcessId;
use super::slab::Id;
use super::state::State;
use super::work::Item;
use crate::driver::{EventFlags, EventHandle, IpcHandle, Status, StreamHandle};

/// An event.
#[derive(Debug)]
pub(super) struct EventState {
    device: DeviceIndex,
    process: ProcessId,
    flags: EventFlags,
    pub(super) recorded: Option<Record>,
    /// The event of another process that it stands for; what that was recorded as holds for both.
    of: Option<Id>,
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

impl EventState {
    /// The place that it stands for, where it is not one in a capture.
    #[inline]
    fn eager(&self) -> Result<Option<Recorded>, Status> {
        match &self.recorded {
            None => Ok(None),
            Some(Record::Eager(recorded)) => Ok(Some(*recorded)),
            Some(Record::Captured(_)) => Err(Status::CapturedEvent),
        }
    }
}

impl State {
    #[inline]
    fn find_event(&self, handle: EventHandle) -> Result<(Id, &EventState), Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        match self.events.get(id) {
            Some(event) if (event.device, event.process) == (handle.device, self.process) => Ok((id, event)),
            _ => Err(Status::InvalidHandle),
        }
    }

    fn event(&self, handle: EventHandle) -> Result<&EventState, Status> {
        self.find_event(handle).map(|(_, event)| event)
    }

    /// The event that holds what an event was recorded as: itself, or another process's.
    #[inline]
    fn origin(&self, handle: EventHandle) -> Result<(Id, &EventState), Status> {
        let (id, event) = self.find_event(handle)?;
        match event.of {
            None => Ok((id, event)),
            Some(of) => self.events.get(of).map(|event| (of, event)).ok_or(Status::InvalidHandle),
        }
    }

    /// What the detector knows it by.
    pub(super) fn event_key(&self, handle: EventHandle) -> Result<u64, Status> {
        self.origin(handle).map(|(id, _)| id.raw())
    }

    /// Whether there is such an event.
    pub(super) fn is_event(&self, id: Id) -> bool {
        self.events.get(id).is_some()
    }

    /// What an event was last recorded as.
    pub(super) fn recorded(&self, handle: EventHandle) -> Result<Option<&Record>, Status> {
        self.origin(handle).map(|(_, event)| event.recorded.as_ref())
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
        let event = EventState { device, process: self.process, flags, recorded: None, of: None };
        let id = self.events.insert(event).ok_or(Status::OutOfMemory)?;
        Ok(EventHandle { device, raw: id.raw() })
    }

    pub(super) fn event_destroy(&mut self, handle: EventHandle) -> Result<(), Status> {
        let (id, _) = self.find_event(handle)?;
        self.events.remove(id);
        self.watch(|races| races.event_ended(id.raw()));
        Ok(())
    }

    /// Records an event whenever the graph runs, where the stream captures.
    pub(super) fn event_record_external(
        &mut self,
        handle: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), Status> {
        let (id, _) = self.origin(handle)?;
        let on = self.stream_id(stream)?;
        if handle.device == stream.device && self.captures(on)? {
            self.add_node(on, NodeWork::Record(id), 0);
            return Ok(());
        }
        self.event_record(handle, stream)
    }

    #[inline]
    pub(super) fn event_record(&mut self, handle: EventHandle, stream: StreamHandle) -> Result<(), Status> {
        let (id, _) = self.origin(handle)?;
        let on = self.stream_id(stream)?;
        if handle.device != stream.device {
            return Err(Status::InvalidHandle);
        }
        let record = match self.captured_record(on)? {
            Some(captured) => Record::Captured(captured),
            None => {
                self.order_with_default(on)?;
                self.watch(|races| races.records(on, stream.device, id.raw()));
                let (place, end_ns) = self.issue(on, Item::Record, 0, 0);
                Record::Eager(Recorded { stream: on, place, end_ns })
            }
        };
        let event = self.events.get_mut(id).ok_or(Status::InvalidHandle)?;
        event.recorded = Some(record);
        Ok(())
    }

    pub(super) fn event_export(&self, handle: EventHandle) -> Result<IpcHandle, Status> {
        let event = self.event(handle)?;
        let exported = event.flags.interprocess && event.of.is_none();
        if exported { Ok(ipc::handle(ipc::EVENT, [handle.raw, 0])) } else { Err(Status::InvalidHandle) }
    }

    pub(super) fn event_open(
        &mut self,
        device: DeviceIndex,
        handle: &IpcHandle,
    ) -> Result<EventHandle, Status> {
        self.device(device)?;
        let [raw, _] = ipc::words(handle, ipc::EVENT)?;
        let of = Id::from_raw(raw).ok_or(Status::InvalidHandle)?;
        let exported = self.events.get(of).ok_or(Status::InvalidHandle)?;
        if exported.process == self.process || exported.device != device || !exported.flags.interprocess {
            return Err(Status::InvalidHandle);
        }
        let opened =
            EventState { device, process: self.process, flags: exported.flags, recorded: None, of: Some(of) };
        let id = self.events.insert(opened).ok_or(Status::OutOfMemory)?;
        Ok(EventHandle { device, raw: id.raw() })
    }

    /// Whether the work that an event stands for is complete. A stream that is gone has none left.
    #[inline]
    pub(super) fn is_complete(&self, recorded: Recorded) -> bool {
        self.streams.get(recorded.stream).is_none_or(|s| s.done >= recorded.place)
    }

    /// The place that an event stands for, where it is not one in a capture.
    fn eager(&self, handle: EventHandle) -> Result<Option<Recorded>, Status> {
        self.origin(handle)?.1.eager()
    }

    #[inline]
    pub(super) fn event_query(&mut self, handle: EventHandle) -> Result<bool, Status> {
        let (id, event) = self.origin(handle)?;
        let recorded = event.eager()?;
        self.forbid_in_capture()?;
        let ready = recorded.is_none_or(|recorded| self.is_complete(recorded));
        if ready {
            self.watch(|races| races.host_saw_event(id.raw()));
        }
        Ok(ready)
    }

    pub(super) fn event_synchronize(&mut self, handle: EventHandle) -> Result<(), Status> {
        let (id, event) = self.origin(handle)?;
        let recorded = event.eager()?;
        self.forbid_in_capture()?;
        if let Some(recorded) = recorded {
            self.run_to(recorded.stream, recorded.place);
            self.clock.waited_until(recorded.end_ns);
        }
        self.watch(|races| races.host_saw_event(id.raw()));
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
