//! Threads of devices: one for each device with streams, which runs the nodes there for all calls of the process.
//!
//! A worker is started when its device is first needed, and stays. While a node on it makes a backward call itself,
//! the worker goes on with its queue until that call is done, so that no call waits for a thread that waits for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use aten::{Error, ErrorKind, Result};
use c10_core::Device;
use c10_core::guard::DeviceGuard;

use super::queue::Queue;
use super::shared;

/// As much as a program's first thread has: nodes may call anything.
const STACK_BYTES: usize = 8 << 20;

/// The queues of the workers that were started. It is never held while anything else is locked.
static WORKERS: Mutex<BTreeMap<(u8, i16), Arc<Queue>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The queue of the device that this thread works for.
    static HOME: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// The queue of the device that this thread works for, if it is a worker.
pub(super) fn home() -> Option<Arc<Queue>> {
    HOME.with_borrow(Clone::clone)
}

/// Has this thread work in the place of another, until the guard is dropped.
pub(super) fn stand_for(home: Option<Arc<Queue>>) -> impl Sized {
    struct Before(Option<Arc<Queue>>);
    impl Drop for Before {
        fn drop(&mut self) {
            drop(HOME.replace(self.0.take()));
        }
    }
    Before(HOME.replace(home))
}

/// The queue of a device, whose worker is started when there is none.
pub(super) fn queue_of(device: Device) -> Result<Arc<Queue>> {
    let key = (device.device_type() as u8, device.index().map_or(-1, i16::from));
    let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(queue) = workers.get(&key) {
        return Ok(Arc::clone(queue));
    }
    let queue = Arc::new(Queue::default());
    let own = Arc::clone(&queue);
    thread::Builder::new()
        .name(format!("autograd {device}"))
        .stack_size(STACK_BYTES)
        .spawn(move || work(device, own))
        .map_err(no_thread)?;
    workers.insert(key, Arc::clone(&queue));
    Ok(queue)
}

fn work(device: Device, queue: Arc<Queue>) {
    let _home = stand_for(Some(Arc::clone(&queue)));
    // Nodes set the device and stream that they need; this is for operators that allocate before.
    let _device = DeviceGuard::new(device);
    while let Some(item) = queue.pop_until(|| false) {
        // What a node does is caught with it; this is for what ends afterwards.
        let _ = catch_unwind(AssertUnwindSafe(|| shared::run_item(item)));
    }
}

/// The system gave no thread.
pub(super) fn no_thread(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("no thread for a backward call: {error}"))
}
