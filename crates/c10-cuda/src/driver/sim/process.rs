//! [`ProcessId`]: several programs on one simulated machine, each as in a process of its own.
//!
//! A process has streams, events, memory and reservations of its own, and the handles and addresses of one mean
//! nothing in another. The machine's memory, its clock and its logs are one.

use std::sync::Arc;

use super::driver::SimDriver;
use super::stream::StreamState;

/// A process, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId(u32);

impl ProcessId {
    pub(super) const FIRST: Self = Self(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SimDriver {
    /// The machine as another process sees it: with what this one exports it can share memory
    /// ([`ipc_open`](crate::driver::Driver::ipc_open)), and with nothing else. A process's memory stays in use until
    /// it gives it back.
    ///
    /// # Panics
    /// When there are as many streams as there can be.
    pub fn new_process(&self) -> Arc<Self> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let next = state.devices.first().map_or(1, |device| device.default_streams.len());
        let process = ProcessId(u32::try_from(next).expect("a process has streams, which are fewer"));
        for (index, device) in (0..).zip(&mut state.devices) {
            let stream = state.streams.insert(StreamState::default_of(index, process));
            device.default_streams.push(stream.expect("there are numbers left for streams"));
        }
        drop(guard);
        Self::of_process(self.count(), Arc::clone(&self.state), process)
    }
}
