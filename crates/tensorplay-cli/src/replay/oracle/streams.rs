#![expect(unsafe_code, reason = "issues kernels, which access nothing")]
//! Devices, streams, kernels and waits.

use c10_core::DeviceIndex;
use c10_cuda::driver::{CaptureState, Driver, EventFlags, KernelLaunch, StreamHandle};

use super::Stop;
use super::answer::Answer;
use super::captures::name_of;
use super::machine::{Machine, bad};
use super::places::on_device;
use crate::replay::ops::StreamName;

impl Machine {
    pub(super) fn set_device(&mut self, line: usize, device: DeviceIndex) -> Result<Answer, Stop> {
        if device >= self.runtime.device_count() {
            return Err(bad(line, format!("there is no device {device}")));
        }
        self.runtime.set_device(device)?;
        self.devices_used.insert(device);
        Ok(Answer::Line(format!("device {device}")))
    }

    pub(super) fn set_stream(&mut self, line: usize, stream: StreamName) -> Result<Answer, Stop> {
        let (stream, _) = self.stream(stream, line)?;
        self.runtime.set_current_stream(stream)?;
        Ok(Answer::DONE)
    }

    pub(super) fn complete_stream(&mut self, line: usize, stream: StreamName) -> Result<Answer, Stop> {
        let handle = self.stream_here(stream, line)?;
        self.driver.complete_stream(handle);
        let here = handle.device == self.runtime.current_device();
        let device = if here { String::new() } else { on_device(handle.device) };
        Ok(Answer::Line(format!("complete {}{device}", stream.number)))
    }

    pub(super) fn kernel(&mut self, line: usize, stream: StreamName) -> Result<Answer, Stop> {
        let handle = self.stream_here(stream, line)?;
        let kernel =
            KernelLaunch { name: "k", reads: Vec::new(), writes: Vec::new(), body: Box::new(|_| {}) };
        // SAFETY: it declares no access, and its body makes none.
        unsafe { self.driver.launch(handle, kernel) }.map_err(c10_cuda::Error::from)?;
        Ok(Answer::DONE)
    }

    /// One stream waits for what another holds now.
    pub(super) fn wait(
        &mut self,
        line: usize,
        waiting: StreamName,
        waited: StreamName,
    ) -> Result<Answer, Stop> {
        let waited = self.stream_here(waited, line)?;
        let waiting = self.stream_here(waiting, line)?;
        match self.wait_for(waiting, waited) {
            Ok(()) => Ok(Answer::DONE),
            Err(error) => Ok(Answer::Refused(name_of(error.status))),
        }
    }

    fn wait_for(&self, waiting: StreamHandle, waited: StreamHandle) -> c10_cuda::driver::Result<()> {
        let driver = &*self.driver;
        let event = driver.event_create(waited.device, EventFlags::default())?;
        let mut done = driver.event_record(event, waited);
        // The stand-in's rule: outside a capture a wait does nothing.
        let captures = |stream| Ok(driver.capture_state(stream)? != CaptureState::None);
        if done.is_ok() && (captures(waiting)? || captures(waited)?) {
            done = driver.stream_wait_event(waiting, event);
        }
        driver.event_destroy(event)?;
        done
    }
}
