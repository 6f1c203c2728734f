//! Streams: a queue of work each, in the order of issue.

use std::collections::VecDeque;

use c10_core::DeviceIndex;

use super::capture::Membership;
use super::event::Record;
use super::per_thread::PER_THREAD;
use super::process::ProcessId;
use super::schedule::Schedule;
use super::slab::Id;
use super::state::State;
use super::work::{Item, Queued};
use crate::driver::{EventHandle, Status, StreamHandle};

/// The lowest and the highest priority.
pub(super) const PRIORITY_RANGE: (i32, i32) = (0, -5);

/// A stream. Its items are numbered from 1; those up to `done` have run, those behind it stand in `queue`.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) device: DeviceIndex,
    pub(super) process: ProcessId,
    kind: Kind,
    priority: i32,
    /// Whether its handle is dead: it lives on until its work is done.
    pub(super) destroyed: bool,
    pub(super) issued: u64,
    pub(super) done: u64,
    pub(super) queue: VecDeque<Queued>,
    /// When all that it holds is over, in nanoseconds of virtual time.
    pub(super) free_at_ns: u64,
    /// The capture that it takes part in.
    pub(super) capture: Option<Membership>,
}

/// Who has a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Default,
    PerThread,
    Created,
}

impl StreamState {
    const fn new(device: DeviceIndex, process: ProcessId, kind: Kind, priority: i32) -> Self {
        Self {
            device,
            process,
            kind,
            priority,
            destroyed: false,
            issued: 0,
            done: 0,
            queue: VecDeque::new(),
            free_at_ns: 0,
            capture: None,
        }
    }

    /// The default stream of a device in a process.
    pub(super) const fn default_of(device: DeviceIndex, process: ProcessId) -> Self {
        Self::new(device, process, Kind::Default, 0)
    }

    /// A thread's stream of a device.
    pub(super) const fn per_thread_of(device: DeviceIndex, process: ProcessId) -> Self {
        Self::new(device, process, Kind::PerThread, 0)
    }

    /// Whether it is of a device, and of a process.
    pub(super) fn is_at(&self, device: DeviceIndex, process: ProcessId) -> bool {
        self.device == device && self.process == process
    }

    pub(super) const fn is_default(&self) -> bool {
        matches!(self.kind, Kind::Default)
    }

    /// Whether it is a thread's default stream.
    pub(super) const fn is_per_thread(&self) -> bool {
        matches!(self.kind, Kind::PerThread)
    }

    /// Whether it takes part in a capture.
    pub(super) fn is_in(&self, capture: u64) -> bool {
        self.capture.as_ref().is_some_and(|membership| membership.is_in(capture))
    }

    /// Its handle, seen from outside.
    pub(super) fn handle(&self, id: Id) -> StreamHandle {
        let raw = match self.kind {
            Kind::Default => 0,
            Kind::PerThread => PER_THREAD,
            Kind::Created => id.raw(),
        };
        StreamHandle { device: self.device, raw }
    }
}

impl State {
    /// The stream of a handle.
    #[inline]
    pub(super) fn stream_id(&self, handle: StreamHandle) -> Result<Id, Status> {
        let created = Id::from_raw(handle.raw).and_then(|id| Some((id, self.streams.get(id)?)));
        match created {
            Some((id, s))
                if s.is_at(handle.device, self.process) && !s.destroyed && s.kind == Kind::Created =>
            {
                Ok(id)
            }
            _ => self.default_stream_id(handle),
        }
    }

    /// The stream of a handle that no program made.
    #[inline(never)]
    fn default_stream_id(&self, handle: StreamHandle) -> Result<Id, Status> {
        let device = self.device(handle.device).map_err(|_| Status::InvalidHandle)?;
        match handle.raw {
            0 => Ok(device.default_streams[self.process.index()]),
            PER_THREAD => self.per_thread_stream(handle.device),
            _ => Err(Status::InvalidHandle),
        }
    }

    pub(super) fn stream_create(
        &mut self,
        device: DeviceIndex,
        priority: i32,
    ) -> Result<StreamHandle, Status> {
        self.device(device)?;
        let (least, greatest) = PRIORITY_RANGE;
        if !(greatest..=least).contains(&priority) {
            return Err(Status::InvalidValue);
        }
        let stream = StreamState::new(device, self.process, Kind::Created, priority);
        let id = self.streams.insert(stream).ok_or(Status::OutOfMemory)?;
        Ok(StreamHandle { device, raw: id.raw() })
    }

    pub(super) fn stream_destroy(&mut self, handle: StreamHandle) -> Result<(), Status> {
        let id = self.stream_id(handle)?;
        match self.streams.get_mut(id) {
            Some(stream) if stream.capture.is_some() => return Err(Status::IllegalState),
            // The default streams live as long as their device and their thread.
            Some(stream) if stream.kind != Kind::Created => return Err(Status::InvalidHandle),
            _ => self.end_stream(id),
        }
        Ok(())
    }

    /// Ends a stream; it lives on until its work is done.
    pub(super) fn end_stream(&mut self, id: Id) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.destroyed = true;
        }
        self.drop_if_over(id);
    }

    pub(super) fn stream_priority(&self, handle: StreamHandle) -> Result<i32, Status> {
        let stream = self.streams.get(self.stream_id(handle)?);
        stream.map(|stream| stream.priority).ok_or(Status::InvalidHandle)
    }

    /// Forgets a destroyed stream whose work is done.
    #[inline]
    pub(super) fn drop_if_over(&mut self, id: Id) {
        if self.streams.get(id).is_some_and(|s| s.destroyed && s.queue.is_empty()) {
            self.drop_stream(id);
        }
    }

    #[cold]
    fn drop_stream(&mut self, id: Id) {
        self.streams.remove(id);
        self.forget_per_thread(id);
        self.watch(|races| races.stream_ended(id));
    }

    pub(super) fn stream_query(&mut self, handle: StreamHandle) -> Result<bool, Status> {
        let id = self.stream_id(handle)?;
        self.forbid_in_capture().and(self.forbid_on_capturing(id))?;
        let ready = self.streams.get(id).is_none_or(|s| s.queue.is_empty());
        if ready {
            self.watch(|races| races.host_saw_stream(id));
        }
        Ok(ready)
    }

    pub(super) fn stream_synchronize(&mut self, handle: StreamHandle) -> Result<(), Status> {
        let id = self.stream_id(handle)?;
        self.forbid_in_capture().and(self.forbid_on_capturing(id))?;
        self.finish_stream(id);
        self.watch(|races| races.host_saw_stream(id));
        self.release_beyond_threshold(handle.device)?;
        self.tell_fault(handle.device)
    }

    /// Runs all that a stream holds, and lets the host wait for it.
    pub(super) fn finish_stream(&mut self, id: Id) {
        let Some(stream) = self.streams.get(id) else { return };
        let (place, end) = (stream.issued, stream.free_at_ns);
        self.run_to(id, place);
        self.clock.waited_until(end);
    }

    pub(super) fn stream_wait_event(
        &mut self,
        handle: StreamHandle,
        event: EventHandle,
    ) -> Result<(), Status> {
        let id = self.stream_id(handle)?;
        let recorded = match self.recorded(event)? {
            None => return Ok(()),
            Some(Record::Captured(captured)) => {
                let captured = captured.clone();
                return self.wait_captured(id, &captured);
            }
            Some(Record::Eager(recorded)) => *recorded,
        };
        self.forbid_outside_work(id)?;
        self.order_with_default(id)?;
        let key = self.event_key(event)?;
        self.watch(|races| races.waits(id, handle.device, key));
        // What has run, or stands before it in the same queue, need not be waited for; the time does.
        let item = Item::Wait { stream: recorded.stream, place: recorded.place };
        self.issue(id, item, 0, recorded.end_ns);
        Ok(())
    }

    pub(super) fn device_synchronize(&mut self, device: DeviceIndex) -> Result<(), Status> {
        self.device(device)?;
        self.forbid_in_capture().and(self.forbid_on_capturing_device(device))?;
        self.finish_device(device);
        self.release_beyond_threshold(device)?;
        self.tell_fault(device)
    }

    /// Runs all that the process's streams of a device hold, and lets the host wait for it.
    pub(super) fn finish_device(&mut self, device: DeviceIndex) {
        let of_device = |(id, s): (Id, &StreamState)| s.is_at(device, self.process).then_some(id);
        let streams: Vec<Id> = self.streams.iter().filter_map(of_device).collect();
        for id in streams {
            self.finish_stream(id);
        }
        self.watch(|races| races.host_saw_device(device));
    }

    /// The place that the next item of a stream will have.
    pub(super) fn next_place(&self, id: Id) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.issued + 1)
    }

    /// When all that a stream holds is over, in nanoseconds of virtual time.
    pub(super) fn free_at(&self, id: Id) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.free_at_ns)
    }

    /// Puts an item at the end of a stream, to begin no earlier than `after_ns`. Gives its place and its end.
    #[inline]
    pub(super) fn issue(&mut self, id: Id, item: Item, cost_ns: u64, after_ns: u64) -> (u64, u64) {
        let now = self.clock.issue();
        let issued_at = self.memory.births;
        let Some(stream) = self.streams.get_mut(id) else { return (0, now) };
        let start = stream.free_at_ns.max(now).max(after_ns);
        stream.free_at_ns = start.saturating_add(cost_ns);
        stream.issued += 1;
        let at = (stream.issued, stream.free_at_ns);
        stream.queue.push_back(Queued { item, issued_at, end_ns: at.1, process: stream.process });
        if matches!(self.schedule, Schedule::Eager) {
            self.run_to(id, at.0);
        }
        at
    }

    /// Tells a synchronising call, once, that work of the device has faulted.
    pub(super) fn tell_fault(&mut self, device: DeviceIndex) -> Result<(), Status> {
        let untold = self.device_mut(device)?;
        if std::mem::take(&mut untold.fault_untold) { Err(Status::IllegalAddress) } else { Ok(()) }
    }
}
