//! [`Launches`]: how far the launches of a graph are.

use c10_core::DeviceIndex;

use crate::captures::Captures;
use crate::driver::{Driver, DriverError, EventFlags, EventHandle, Status, StreamHandle};
use crate::sync::Arc;

/// The last launch on each stream, as far as they may be under way.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    last: Vec<Launch>,
    /// Whether work was issued behind which no event could be recorded: a launch, or a copy for one that failed. Then
    /// only its device can be waited for.
    is_unknown: bool,
    /// Events to be used again.
    idle: Vec<EventHandle>,
}

/// The last launch on a stream.
#[derive(Clone, Debug)]
struct Launch {
    on: LaunchStream,
    /// An event behind it. Shared with what was retired when the graph was updated.
    event: Arc<EventHandle>,
}

/// Where a graph is launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchStream {
    pub(super) handle: StreamHandle,
    /// Whether it is somebody else's, who may end it while it holds work: the driver may give the next stream the same
    /// handle.
    pub(super) is_external: bool,
}

impl LaunchStream {
    /// Whether what is issued on either comes in the order in which it is issued.
    fn is(self, other: Self) -> bool {
        self.handle == other.handle && !self.is_external && !other.is_external
    }
}

impl Launches {
    /// Makes a stream wait for all launches that are under way, and gives the event for the next one there. Those that
    /// are done are forgotten, so that no more events are kept than streams hold launches.
    ///
    /// # Errors
    /// What the driver reports; with work that [nobody can know of](Self::failed), [`Status::CaptureUnsupported`] while
    /// a capture is under way, which waiting for the device would spoil. What was issued is known as before.
    pub(super) fn prepare(
        &mut self,
        driver: &dyn Driver,
        captures: &Captures,
        on: LaunchStream,
    ) -> Result<EventHandle, DriverError> {
        if self.is_unknown {
            self.settle(driver, captures, on.handle.device)?;
        }
        self.forget_passed(driver, captures, on)?;
        for launch in self.last.iter().filter(|launch| !launch.on.is(on)) {
            driver.stream_wait_event(on.handle, *launch.event)?;
        }
        match self.idle.pop() {
            Some(event) => Ok(event),
            None => driver.event_create(on.handle.device, EventFlags::default()),
        }
    }

    /// Waits for the device, and thereby for all that was issued.
    fn settle(
        &mut self,
        driver: &dyn Driver,
        captures: &Captures,
        device: DeviceIndex,
    ) -> Result<(), DriverError> {
        let Some(_quiet) = captures.quiet() else {
            return Err(DriverError::new("device_synchronize", Status::CaptureUnsupported, device));
        };
        driver.device_synchronize(device)?;
        self.is_unknown = false;
        Ok(())
    }

    /// Forgets the launches on other streams that are done.
    fn forget_passed(
        &mut self,
        driver: &dyn Driver,
        captures: &Captures,
        on: LaunchStream,
    ) -> Result<(), DriverError> {
        if self.last.iter().all(|launch| launch.on.is(on)) {
            return Ok(());
        }
        let _relaxed = captures.relaxed(driver)?;
        let mut at = 0;
        while at < self.last.len() {
            if !self.last[at].on.is(on) && driver.event_query(*self.last[at].event)? {
                let passed = self.last.swap_remove(at);
                self.idle.extend(Arc::into_inner(passed.event));
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Notes that no launch came of a preparation, and whether anything was issued for it all the same.
    pub(super) fn failed(&mut self, event: EventHandle, is_issued: bool) {
        self.idle.push(event);
        self.is_unknown |= is_issued;
    }

    /// Notes a launch that has just been issued.
    pub(super) fn issued(
        &mut self,
        driver: &dyn Driver,
        on: LaunchStream,
        event: EventHandle,
    ) -> Result<(), DriverError> {
        if let Err(error) = driver.event_record(event, on.handle) {
            self.failed(event, true);
            return Err(error);
        }
        let launch = Launch { on, event: Arc::new(event) };
        // The stream of an equal handle, ended or not, has been waited for.
        match self.last.iter_mut().find(|last| last.on.handle == on.handle) {
            None => self.last.push(launch),
            Some(last) => {
                let before = std::mem::replace(last, launch);
                self.idle.extend(Arc::into_inner(before.event));
            }
        }
        Ok(())
    }

    /// The same launches, for another owner.
    pub(super) fn share(&self) -> Self {
        Self { last: self.last.clone(), is_unknown: self.is_unknown, idle: Vec::new() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty() && !self.is_unknown
    }

    /// Whether only the device can be waited for.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Whether all are done.
    pub(crate) fn are_done(&self, driver: &dyn Driver) -> Result<bool, DriverError> {
        if self.is_unknown {
            return Ok(false);
        }
        for launch in &self.last {
            if !driver.event_query(*launch.event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for all.
    pub(crate) fn wait(&self, driver: &dyn Driver, device: DeviceIndex) -> Result<(), DriverError> {
        if self.is_unknown {
            return driver.device_synchronize(device);
        }
        self.last.iter().try_for_each(|launch| driver.event_synchronize(*launch.event))
    }

    /// The events that nobody else has.
    pub(crate) fn into_events(self) -> impl Iterator<Item = EventHandle> {
        let last = self.last.into_iter().filter_map(|launch| Arc::into_inner(launch.event));
        last.chain(self.idle)
    }
}
