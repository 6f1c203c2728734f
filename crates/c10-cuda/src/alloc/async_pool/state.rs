//! The state of an [`AsyncPool`] under its lock. Its rules:
//!
//! - **Y1.** `live` holds what the driver has given and not got back; a device's `used` is the sum of the bytes asked
//!   for.
//! - **Y2.** A block that the program has given back stands once in `deferred` or in `refused`, and no other does.
//! - **Y3.** Only blocks of devices that are ready live.
//!
//! Under the lock only the driver is called. One lock serves all devices: a capture is one of the whole allocator.

use std::collections::BTreeMap;
use std::fmt;

use c10_core::DeviceIndex;

use crate::captures::{Captures, Quiet, Undisturbing};
use crate::driver::{Driver, DriverError, EventFlags, EventHandle, StreamHandle};
use crate::drop_errors::DropErrors;
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// The driver's pools as an allocator. Lives while the allocator does, and while blocks are handed out.
pub(in crate::alloc) struct AsyncPool {
    pub(super) driver: Arc<dyn Driver>,
    /// The captures of the runtime, of other allocators too.
    captures: Arc<Captures>,
    errors: Arc<DropErrors>,
    state: Mutex<State>,
}

/// What the lock guards.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) devices: Vec<DeviceState>,
    /// By address.
    pub(super) live: BTreeMap<u64, Usage>,
    /// Whether allocations go to a graph (`capture_underway`).
    pub(super) capturing: bool,
    /// Whether the cache is to be emptied when the capture is over.
    pub(super) empty_later: bool,
    /// Given back in a capture that may use them.
    pub(super) deferred: Vec<u64>,
    /// Given back, and the driver refused to take them: to be tried again.
    pub(super) refused: Vec<u64>,
    /// The last error that a free met.
    pub(super) unreported: Option<DriverError>,
}

/// One device.
#[derive(Debug, Default)]
pub(super) struct DeviceState {
    /// What its first use makes.
    pub(super) ready: Option<Ready>,
    /// The bytes asked for and not given back.
    pub(super) used: u64,
    /// The memory fraction that was set, and the bytes that it allows.
    pub(super) limit: Option<(f64, u64)>,
}

/// A device that has been used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// The stream on which blocks of several streams go back.
    pub(super) unifying: StreamHandle,
    /// By which streams wait for others: a wait means what the event stood for when it was issued.
    pub(super) event: EventHandle,
}

/// A block.
#[derive(Debug)]
pub(super) struct Usage {
    /// What was asked for.
    pub(super) bytes: u64,
    /// The stream that it was allocated on.
    pub(super) stream: StreamHandle,
    /// The other streams that use it. Sorted.
    pub(super) uses: Vec<StreamHandle>,
    /// Whether it was allocated while a capture was under way.
    pub(super) captured: bool,
    /// Whether it is an address of a graph.
    pub(super) in_graph: bool,
    /// Whether a raw call gave it out.
    pub(super) raw: bool,
    /// Whether the program has given it back.
    pub(super) freed: bool,
}

impl Usage {
    /// A block that is handed out, of no capture.
    pub(super) fn new(bytes: u64, stream: StreamHandle) -> Self {
        Self { bytes, stream, uses: Vec::new(), captured: false, in_graph: false, raw: false, freed: false }
    }
}

/// The state, locked.
pub(super) struct Locked<'a> {
    pub(super) driver: &'a dyn Driver,
    captures: &'a Captures,
    state: MutexGuard<'a, State>,
}

impl AsyncPool {
    pub(in crate::alloc) fn new(runtime: &Runtime) -> Arc<Self> {
        let devices = (0..runtime.device_count()).map(|_| DeviceState::default()).collect();
        Arc::new(Self {
            driver: Arc::clone(runtime.driver()),
            captures: Arc::clone(runtime.captures()),
            errors: Arc::clone(runtime.drop_errors()),
            state: Mutex::new(State { devices, ..State::default() }),
        })
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { driver: &*self.driver, captures: &self.captures, state: lock(&self.state) }
    }

    /// Keeps an error that no call can return.
    pub(super) fn note(&self, result: Result<(), DriverError>) {
        self.errors.note(result);
    }

    /// Does something once no capture is under way.
    pub(super) fn when_over(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let pool = Arc::clone(self);
        self.captures.when_over(move || work(&pool));
    }

    pub(in crate::alloc) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Stops with the number of the first rule that does not hold.
    pub(in crate::alloc) fn check_invariants(&self) {
        self.lock().check_invariants();
    }
}

impl<'a> Locked<'a> {
    /// Whether a capture is under way, of this allocator or another.
    pub(super) fn is_beside_capture(&self) -> bool {
        self.capturing || self.captures.are_under_way()
    }

    /// Holds captures off that would begin; `None` beside one.
    pub(super) fn quiet(&self) -> Option<Quiet<'a>> {
        if self.capturing { None } else { self.captures.quiet() }
    }

    /// Makes this thread's calls disturb no capture.
    pub(super) fn relaxed(&self) -> Result<Undisturbing<'a>, DriverError> {
        if self.capturing {
            self.captures.relaxed_mode(self.driver).map(Undisturbing::Relaxed)
        } else {
            self.captures.relaxed(self.driver)
        }
    }

    /// Makes a device ready: its pool keeps what it has, and a stream for frees is there.
    pub(super) fn ready(&mut self, device: DeviceIndex) -> Result<Ready, DriverError> {
        if let Some(ready) = self.devices[usize::from(device)].ready {
            return Ok(ready);
        }
        let driver = self.driver;
        driver.mem_pool_set_release_threshold(device, u64::MAX)?;
        let (_, greatest) = driver.stream_priority_range(device)?;
        let unifying = driver.stream_create(device, greatest)?;
        let event = driver.event_create(device, EventFlags::default()).inspect_err(|_| {
            // There is an error to report already.
            let _ = driver.stream_destroy(unifying);
        })?;
        let ready = Ready { unifying, event };
        self.devices[usize::from(device)].ready = Some(ready);
        Ok(ready)
    }

    /// Makes a stream wait for all that another holds, on whatever device.
    pub(super) fn wait(&mut self, waiting: StreamHandle, other: StreamHandle) -> Result<(), DriverError> {
        let event = self.ready(other.device)?.event;
        self.driver.event_record(event, other)?;
        self.driver.stream_wait_event(waiting, event)
    }
}

impl State {
    fn check_invariants(&self) {
        for (device, state) in self.devices.iter().enumerate() {
            let of_device = self.live.values().filter(|usage| usize::from(usage.stream.device) == device);
            let bytes: u64 = of_device.clone().map(|usage| usage.bytes).sum();
            assert_eq!(state.used, bytes, "Y1: device {device}");
            assert!(state.ready.is_some() || of_device.count() == 0, "Y3: device {device}");
        }
        for (at, usage) in &self.live {
            let listed = self.deferred.iter().chain(&self.refused).filter(|there| *there == at).count();
            assert_eq!(listed, usize::from(usage.freed), "Y2: {usage:?} at {at:#x}");
        }
        let listed = self.deferred.iter().chain(&self.refused);
        assert!(listed.clone().all(|at| self.live.contains_key(at)), "Y2: blocks that are gone");
    }
}

impl std::ops::Deref for Locked<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        &self.state
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !std::thread::panicking() {
            self.state.check_invariants();
        }
    }
}

impl Drop for AsyncPool {
    fn drop(&mut self) {
        let Some(_quiet) = self.captures.quiet() else {
            // Devices cannot be waited for now: what is left ends with the captures.
            let state = std::mem::take(&mut *lock(&self.state));
            if !state.devices.is_empty() {
                let (driver, captures) = (Arc::clone(&self.driver), Arc::clone(&self.captures));
                let rest =
                    Self { driver, captures, errors: Arc::clone(&self.errors), state: Mutex::new(state) };
                self.captures.when_over(move || drop(rest));
            }
            return;
        };
        let mut locked = self.lock();
        locked.capturing = false;
        locked.free_waiting();
        self.errors.note(locked.trim_all());
        for device in std::mem::take(&mut locked.devices) {
            let Some(Ready { unifying, event }) = device.ready else { continue };
            self.errors.note(locked.driver.event_destroy(event));
            self.errors.note(locked.driver.stream_destroy(unifying));
        }
        // What could not be freed is lost with its books.
        locked.live.clear();
        locked.deferred.clear();
        locked.refused.clear();
    }
}

impl fmt::Debug for AsyncPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncPool").field("driver", &self.driver.name()).finish_non_exhaustive()
    }
}
