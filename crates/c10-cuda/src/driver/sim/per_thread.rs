//! The default stream that each thread has of each device.
//!
//! It is made when its thread first names it, and ends with the thread; what it holds still runs. Unlike the streams
//! that a program makes it keeps order with the default stream of its device: what is issued on either runs behind
//! what the other holds. So nothing can be issued on the default stream while a thread's captures.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, ThreadId};

use c10_core::DeviceIndex;

use super::driver::SimDriver;
use super::process::ProcessId;
use super::slab::Id;
use super::state::State;
use super::stream::StreamState;
use super::work::Item;
use crate::driver::{Status, StreamHandle};

/// The handle's number.
pub(super) const PER_THREAD: u64 = StreamHandle::per_thread_default(0).raw;

/// The streams of threads that live, or have left work.
#[derive(Debug, Default)]
pub(super) struct PerThread(Vec<(ThreadId, DeviceIndex, ProcessId, Id)>);

/// Ends a stream with its thread.
struct OfThisThread {
    machine: Weak<Mutex<State>>,
    stream: Id,
}

impl Drop for OfThisThread {
    fn drop(&mut self) {
        // No lock of this thread's is held where its values are dropped.
        let Some(machine) = self.machine.upgrade() else { return };
        let mut state = machine.lock().unwrap_or_else(PoisonError::into_inner);
        state.thread_ended(self.stream);
        state.end_stream(self.stream);
    }
}

thread_local! {
    static STREAMS: RefCell<Vec<OfThisThread>> = const { RefCell::new(Vec::new()) };
}

impl PerThread {
    fn of(&self, device: DeviceIndex, process: ProcessId) -> Option<Id> {
        let thread = thread::current().id();
        let own =
            |of: &&(ThreadId, DeviceIndex, ProcessId, Id)| (of.0, of.1, of.2) == (thread, device, process);
        self.0.iter().find(own).map(|(.., id)| *id)
    }
}

impl State {
    /// What a thread's stream holds comes before what the default stream will, however soon it runs.
    fn thread_ended(&mut self, stream: Id) {
        let Some(of) = self.streams.get(stream) else { return };
        let (device, process) = (of.device, of.process);
        let Ok(of_device) = self.device(device) else { return };
        let legacy = of_device.default_streams[process.index()];
        self.watch(|races| races.follows(legacy, stream, device));
    }
}

impl SimDriver {
    /// Makes the calling thread's stream of a device, where there is none.
    pub(super) fn make_per_thread(&self, state: &mut State, device: DeviceIndex) {
        if state.device(device).is_err() || state.per_thread.of(device, self.process).is_some() {
            return;
        }
        let stream = StreamState::per_thread_of(device, self.process);
        let Some(id) = state.streams.insert(stream) else { return };
        let machine = Arc::downgrade(&self.state);
        // A thread that is ending gets none: nothing would end it.
        let kept = STREAMS.try_with(|streams| {
            let mut streams = streams.borrow_mut();
            // Those of machines that are gone.
            streams.retain(|stream| stream.machine.strong_count() > 0);
            streams.push(OfThisThread { machine, stream: id });
        });
        match kept {
            Ok(()) => state.per_thread.0.push((thread::current().id(), device, self.process, id)),
            Err(_) => _ = state.streams.remove(id),
        }
    }
}

impl State {
    /// The calling thread's stream of a device.
    pub(super) fn per_thread_stream(&self, device: DeviceIndex) -> Result<Id, Status> {
        self.per_thread.of(device, self.process).ok_or(Status::InvalidHandle)
    }

    /// Lets what is issued on a default stream next wait for what the others hold that it keeps order with.
    #[inline]
    pub(super) fn order_with_default(&mut self, id: Id) -> Result<(), Status> {
        if self.per_thread.0.is_empty() { Ok(()) } else { self.order_default_streams(id) }
    }

    #[cold]
    fn order_default_streams(&mut self, id: Id) -> Result<(), Status> {
        self.forbid_implicit_order(id)?;
        for other in self.ordered_with(id) {
            self.wait_for_all(id, other);
        }
        Ok(())
    }

    /// Refuses work of a default stream where one that captures would come before it.
    pub(super) fn forbid_implicit_order(&mut self, id: Id) -> Result<(), Status> {
        let mut result = Ok(());
        for other in self.ordered_with(id) {
            result = result.and(self.forbid_on_capturing(other));
        }
        result
    }

    /// The default streams that a stream keeps order with.
    fn ordered_with(&self, id: Id) -> Vec<Id> {
        let of_threads = &self.per_thread.0;
        let stream = self.streams.get(id).filter(|_| !of_threads.is_empty());
        let Some((device, process)) = stream.map(|stream| (stream.device, stream.process)) else {
            return Vec::new();
        };
        let legacy = self.device(device).ok().map(|device| device.default_streams[process.index()]);
        if legacy == Some(id) {
            let of_device = of_threads.iter().filter(|of| (of.1, of.2) == (device, process));
            return of_device.map(|(.., id)| *id).collect();
        }
        legacy.filter(|_| stream.is_some_and(StreamState::is_per_thread)).into_iter().collect()
    }

    /// Forgets a thread's stream that is gone.
    pub(super) fn forget_per_thread(&mut self, stream: Id) {
        self.per_thread.0.retain(|(.., id)| *id != stream);
    }

    /// Makes a stream wait for what another holds.
    fn wait_for_all(&mut self, id: Id, other: Id) {
        let Some(held) = self.streams.get(other) else { return };
        let (place, end_ns, device) = (held.issued, held.free_at_ns, held.device);
        self.watch(|races| races.follows(id, other, device));
        if !self.has_run(other, place) {
            self.issue(id, Item::Wait { stream: other, place }, 0, end_ns);
        }
    }
}
