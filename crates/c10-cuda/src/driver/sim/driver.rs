//! [`SimDriver`]: one simulated machine, and what its program can do with it beyond the trait.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use c10_core::DeviceIndex;

use super::access::Toucher;
use super::call::CallName;
use super::config::SimConfig;
use super::fault::{FaultPlan, Faults};
use super::log::{Call, Work};
use super::per_thread::PER_THREAD;
use super::process::ProcessId;
use super::race::Origin;
use super::report::{AccessFault, WorkFault};
use super::state::State;
use crate::captures::Captures;
use crate::driver::{DevicePtr, DriverError, EventHandle, Result, Status, StreamHandle};

/// A simulated CUDA machine: any number of them live in a process, and none knows of another. To programs on the
/// machine it is as in a process of their own ([`new_process`](Self::new_process)).
///
/// One lock guards each; every call takes it once. All of it is deterministic: the same calls in the same order,
/// with the same configuration, give the same results.
pub struct SimDriver {
    device_count: DeviceIndex,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) process: ProcessId,
    /// Those of the process, which the simulator does not look at.
    pub(super) captures: Arc<Captures>,
    /// Whether a call has left something in `State::remains`: a hint that saves the lock.
    has_remains: AtomicBool,
}

/// What a call was given, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Site {
    /// `None` when it is the device of `ptr`.
    pub(super) device: Option<DeviceIndex>,
    pub(super) ptr: DevicePtr,
    pub(super) bytes: u64,
    pub(super) stream: Option<StreamHandle>,
    pub(super) event: Option<EventHandle>,
}

thread_local! {
    /// Whether this thread is running an item of work, and so holds the lock of a simulated driver.
    static RUNS_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` marked as the body of an item: calls of simulated drivers from within are refused.
pub(super) fn as_work<R>(work: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            RUNS_WORK.set(self.0);
        }
    }
    let _reset = Reset(RUNS_WORK.replace(true));
    work()
}

impl SimDriver {
    /// A machine, with all its memory free and nothing to do.
    ///
    /// # Panics
    /// When it has more than [`MAX_DEVICES`](super::MAX_DEVICES) devices.
    pub fn new(config: SimConfig) -> Arc<Self> {
        let state = State::new(config);
        let device_count = state.devices.len() as DeviceIndex;
        Self::of_process(device_count, Arc::new(Mutex::new(state)), ProcessId::FIRST)
    }

    pub(super) fn of_process(
        device_count: DeviceIndex,
        state: Arc<Mutex<State>>,
        process: ProcessId,
    ) -> Arc<Self> {
        Arc::new(Self {
            device_count,
            state,
            process,
            captures: Arc::default(),
            has_remains: AtomicBool::new(false),
        })
    }

    /// Runs what a stream holds, and before that whatever it waits for on other streams. A stream that is not
    /// there holds nothing.
    pub fn complete_stream(&self, stream: StreamHandle) {
        let mut state = self.lock();
        if let Ok(id) = state.stream_id(stream) {
            state.run_to(id, u64::MAX);
        }
        let has_remains = !state.remains.is_empty();
        drop(state);
        if has_remains {
            self.end_remains();
        }
    }

    /// Runs what all streams hold.
    pub fn complete_all(&self) {
        self.lock().run_all();
        self.end_remains();
    }

    /// Runs the next item of a stream, if it waits for nothing. Whether it did.
    pub fn step(&self, stream: StreamHandle) -> bool {
        let mut state = self.lock();
        let stepped = state.stream_id(stream).is_ok_and(|id| state.step(id));
        drop(state);
        self.end_remains();
        stepped
    }

    /// How many items of work have not run yet, on all streams.
    pub fn pending(&self) -> usize {
        self.lock().streams.iter().map(|(_, s)| s.queue.len()).sum()
    }

    /// The host's virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.lock().clock.now_ns()
    }

    /// Takes the calls that changed something or failed, oldest first, as far as
    /// [`log_calls`](SimConfig::log_calls) keeps them.
    pub fn take_calls(&self) -> Vec<Call> {
        self.lock().calls.take()
    }

    /// Takes the items of work that ran, in the order in which they did, as far as
    /// [`log_calls`](SimConfig::log_calls) keeps them.
    pub fn take_work(&self) -> Vec<Work> {
        self.lock().work.take()
    }

    /// Takes the faults of work, oldest first. Each device's next synchronising call has told, or will tell, of
    /// them once, with [`Status::IllegalAddress`]; the device goes on, so that a test can go on.
    pub fn take_faults(&self) -> Vec<WorkFault> {
        std::mem::take(&mut self.lock().work_faults)
    }

    /// Copies out of a device's memory as it is now, in no order with any work.
    ///
    /// # Errors
    /// [`AccessFault::NotLive`] and its like when not all of the range is live.
    pub fn peek(&self, ptr: DevicePtr, out: &mut [u8]) -> std::result::Result<(), AccessFault> {
        let state = self.lock();
        let device = state.device_of(ptr);
        let who = Toucher { device, process: None, reach: u32::MAX, by_copy: true, issued_at: u64::MAX };
        let pieces = state.memory.resolve(ptr, out.len() as u64, &who)?;
        state.memory.read(&pieces, 0, out);
        Ok(())
    }

    /// Keeps the last `calls` calls and items of work from here on; 0 keeps none.
    pub fn log_calls(&self, calls: usize) {
        let mut state = self.lock();
        state.calls.set_bound(calls);
        state.work.set_bound(calls);
    }

    /// How often a call has been made, by its name in the trait, with or without success.
    ///
    /// # Panics
    /// When the trait has no such call that can fail.
    #[track_caller]
    pub fn call_count(&self, name: &str) -> u64 {
        let name = CallName::named(name);
        self.lock().counts[name as usize]
    }

    /// Replaces the fault plan; it counts calls from here.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.lock().faults = Faults::new(plan);
    }

    /// Makes the next `malloc`s of a device take these addresses, in order, as a recorded run had them; then
    /// placement goes on by itself. Replaces what is left of an earlier list. A call fails with
    /// [`Status::InvalidValue`] when its address is null or its range would overlap a live one.
    pub fn script_malloc_addresses(&self, device: DeviceIndex, addresses: Vec<DevicePtr>) {
        if let Ok(device) = self.lock().device_mut(device) {
            device.malloc_space.set_script(addresses);
        }
    }

    /// Makes the next `reserve`s of a device take these addresses, as
    /// [`script_malloc_addresses`](Self::script_malloc_addresses) does for `malloc`. They are multiples of the
    /// granularity.
    pub fn script_reserve_addresses(&self, device: DeviceIndex, addresses: Vec<DevicePtr>) {
        if let Ok(device) = self.lock().device_mut(device) {
            device.va_space.set_script(addresses);
        }
    }

    /// Whether something that has run may wait to be dropped.
    pub(super) fn may_have_remains(&self) -> bool {
        self.has_remains.load(Ordering::Relaxed)
    }

    /// The same, for whoever drops it.
    pub(super) fn takes_remains(&self) -> bool {
        self.may_have_remains() && self.has_remains.swap(false, Ordering::Relaxed)
    }

    pub(super) const fn count(&self) -> DeviceIndex {
        self.device_count
    }

    /// One call of the trait: counts it, lets work make progress, asks the fault plan, runs it and logs it. `op`
    /// may fill in what it gave out.
    #[inline]
    #[track_caller]
    pub(super) fn call<T>(
        &self,
        name: CallName,
        mut site: Site,
        op: impl FnOnce(&mut State, &mut Site) -> std::result::Result<T, Status>,
    ) -> Result<T> {
        if RUNS_WORK.get() {
            return Err(DriverError::new(name.as_str(), Status::NotPermitted, site.device.unwrap_or(0)));
        }
        let mut state = self.lock();
        if let Some(StreamHandle { device, raw: PER_THREAD }) = site.stream {
            self.make_per_thread(&mut state, device);
        }
        let device = site.device.unwrap_or_else(|| state.device_of(site.ptr));
        state.counts[name as usize] += 1;
        if let Some(races) = &mut state.races {
            races.begin_call(Origin::of_call(Location::caller()));
        }
        state.progress();
        let result = match state.planned_fault(name, device, site.bytes) {
            Some(status) => Err(status),
            None => op(&mut state, &mut site),
        };
        if !state.remains.is_empty() {
            self.has_remains.store(true, Ordering::Relaxed);
        }
        let status = result.as_ref().err().copied();
        if state.calls.is_on() && (status.is_some() || !name.only_asks()) {
            let Site { ptr, bytes, stream, event, device: _ } = site;
            state.calls.push(Call { name: name.as_str(), device, ptr, bytes, stream, event, status });
        }
        result.map_err(|status| DriverError::new(name.as_str(), status, device))
    }

    /// The state. A panic under the lock leaves it whole: kernels' panics are caught, and nothing else calls out.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.lock_outside_work().expect("a kernel's body must not use a simulated driver")
    }

    /// The same, unless this thread runs a body and so holds the lock already.
    pub(super) fn lock_outside_work(&self) -> Option<MutexGuard<'_, State>> {
        if RUNS_WORK.get() {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.process = self.process;
        Some(state)
    }
}

impl fmt::Debug for SimDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDriver").field("device_count", &self.device_count).finish_non_exhaustive()
    }
}
