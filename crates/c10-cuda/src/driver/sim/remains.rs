//! [`Remains`]: what kernels leave when they have run. Dropping it may free memory, which calls the driver and takes
//! the locks of whoever owns that; so it waits until no lock is held.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::driver::SimDriver;
use super::kernel::message_of;
use super::node::SharedKernel;
use super::report::{AccessFault, WorkFault};
use crate::driver::{KernelBody, StreamHandle};

/// A kernel that has run, or that faulted instead.
pub(super) struct Remains {
    pub(super) stream: StreamHandle,
    pub(super) name: &'static str,
    pub(super) of: Leftover,
}

/// What it owns.
pub(super) enum Leftover {
    Body(KernelBody),
    /// It may be a graph's still.
    Kernel(SharedKernel),
}

impl Leftover {
    fn end(self) {
        match self {
            Self::Body(body) => drop(body),
            Self::Kernel(kernel) => drop(kernel),
        }
    }
}

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remains")
            .field("stream", &self.stream)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SimDriver {
    /// Drops what has run. A panic on the way is the kernel's fault.
    pub(super) fn end_remains(&self) {
        loop {
            let Some(mut state) = self.lock_outside_work() else { return };
            let remains = std::mem::take(&mut state.remains);
            drop(state);
            if remains.is_empty() {
                return;
            }
            for Remains { stream, name, of } in remains {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| of.end())) {
                    let fault = AccessFault::Panicked(message_of(&*payload));
                    let mut state = self.lock();
                    state.work_faults.push(WorkFault { stream, name, range: None, fault });
                    if let Ok(device) = state.device_mut(stream.device) {
                        device.fault_untold = true;
                    }
                }
            }
        }
    }
}
