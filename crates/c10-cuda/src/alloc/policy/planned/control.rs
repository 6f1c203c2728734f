//! What a program tells an allocator that plans: where iterations begin, and what to record.

use c10_core::DeviceIndex;

use super::recorder::Recorder;
use super::{Arena, Plan, PlanStats, Recording};
use crate::alloc::CachingAllocator;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;

impl CachingAllocator {
    /// Says that an iteration begins on a device: the next request is the first of its plan. Without a plan, or with one
    /// that finds its place by itself, it changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn begin_iteration(&self, device: DeviceIndex) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        if let Some(arena) = &mut locked.arena {
            arena.begin_iteration();
        }
        Ok(())
    }

    /// Places what is asked for on a device by a plan from here on, or without one as PyTorch would. What is cached is
    /// given back, so that it does not stand beside the plan's memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device, or blocks that the present plan has placed are still
    /// in use: nothing is changed then. What the driver reports; then the plan is changed, unless it would not take
    /// the memory of the present one back.
    pub fn set_plan(&self, plan: Option<Arc<Plan>>, device: DeviceIndex) -> Result<()> {
        self.supports("setPlan")?;
        let mut locked = self.device(device)?.lock();
        locked.process_events()?;
        if locked.arena.as_ref().is_some_and(|arena| !arena.is_idle()) {
            let text = format!("set_plan: blocks that the plan of device {device} has placed are in use");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        locked.release_arena()?;
        locked.arena = plan.map(Arena::new);
        Ok(locked.release_cached_blocks()?)
    }

    /// How the plan of a device has done; `None` without a plan.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn plan_stats(&self, device: DeviceIndex) -> Result<Option<PlanStats>> {
        Ok(self.device(device)?.lock().arena.as_ref().map(|arena| arena.stats()))
    }

    /// Records from here on what is asked for on a device outside private pools, and when it is free again. What was
    /// being recorded is forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn begin_recording(&self, device: DeviceIndex) -> Result<()> {
        self.supports("beginRecording")?;
        let mut locked = self.device(device)?.lock();
        let rounding = locked.config.roundup_power2_divisions;
        locked.recorder = Some(Recorder::new(rounding));
        Ok(())
    }

    /// Ends what [`begin_recording`](Self::begin_recording) began, and returns it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device, nothing is being recorded, or it has become longer
    /// than a recording can be.
    pub fn end_recording(&self, device: DeviceIndex) -> Result<Recording> {
        let recorder = self.device(device)?.lock().recorder.take();
        let recorder = recorder.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("end_recording: nothing is recorded on device {device}"),
            )
        })?;
        recorder.end()
    }
}
