#![expect(unsafe_code, reason = "gives memory back to the driver's pool, behind all that uses it")]
//! Frees, in the order of the streams that used the memory.

use super::state::{AsyncPool, Locked, Usage};
use crate::alloc::oom;
use crate::driver::{DevicePtr, DriverError, Status, StreamHandle};
use crate::error::Result;

impl AsyncPool {
    /// Takes a block back from the program. What the driver refuses is tried again later.
    pub(super) fn free(&self, at: u64) {
        self.lock().give_back(at);
    }

    /// Takes an address of a raw call back.
    pub(in crate::alloc) fn raw_delete(&self, ptr: DevicePtr) -> Result<()> {
        let mut locked = self.lock();
        let known = locked.live.get(&ptr.0).is_some_and(|usage| usage.raw && !usage.freed);
        if !known {
            return Err(oom::foreign("raw_delete", &ptr.to_string()));
        }
        locked.give_back(ptr.0);
        Ok(())
    }

    /// Notes that a stream uses a block that is handed out; `false` for an address that is none.
    pub(in crate::alloc) fn record_stream(&self, ptr: DevicePtr, stream: StreamHandle) -> bool {
        let mut locked = self.lock();
        let Some(usage) = locked.live.get_mut(&ptr.0).filter(|usage| !usage.freed) else { return false };
        if stream != usage.stream
            && let Err(place) = usage.uses.binary_search(&stream)
        {
            usage.uses.insert(place, stream);
        }
        true
    }
}

impl Locked<'_> {
    fn give_back(&mut self, at: u64) {
        let capturing = self.capturing;
        let usage = self.live.get_mut(&at).expect("the block is handed out");
        usage.freed = true;
        if capturing && !usage.captured { self.deferred.push(at) } else { self.free_now(at) }
    }

    /// Frees what waits for a capture's end, or was refused.
    pub(super) fn free_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.deferred);
        waiting.append(&mut self.refused);
        for at in waiting {
            self.free_now(at);
        }
    }

    fn free_now(&mut self, at: u64) {
        match self.try_free(at) {
            Ok(true) => {
                let usage = self.live.remove(&at).expect("a block lives until it is freed");
                self.devices[usize::from(usage.stream.device)].used -= usage.bytes;
            }
            Ok(false) => self.deferred.push(at),
            Err(error) => {
                self.unreported = Some(error);
                self.refused.push(at);
            }
        }
    }

    /// Gives a block to the driver behind all that uses it; `false` when that is to wait for a capture's end.
    fn try_free(&mut self, at: u64) -> Result<bool, DriverError> {
        let usage = &self.live[&at];
        let (own, uses, in_graph) = (usage.stream, usage.uses.clone(), usage.in_graph);
        let quiet = self.quiet();
        let is_beside = quiet.is_none();
        let captures = is_beside && self.captures(own)?;
        if is_beside {
            // Nothing in a capture can wait for what is outside, nor the other way round.
            let mut apart = captures && !in_graph;
            for stream in &uses {
                apart |= self.captures(*stream)? != captures;
            }
            if apart {
                return Ok(false);
            }
        }
        let on = if uses.is_empty() || captures { own } else { self.ready(own.device)?.unifying };
        let others = uses.into_iter().chain((on != own).then_some(own));
        for other in others {
            if !self.wait_unless_gone(on, other)? {
                return self.free_after_all(at, own);
            }
        }
        // SAFETY: the program has given the block up. What its own stream holds of it comes before this there, and
        // what others do has just been waited for.
        match unsafe { self.driver.free_async(DevicePtr(at), on) } {
            Err(DriverError { status: Status::InvalidHandle, .. }) if on == own => {
                self.free_after_all(at, own)
            }
            freed => freed.map(|()| true),
        }
    }

    /// As [`wait`](Self::wait); `false` when the other stream is gone.
    fn wait_unless_gone(&mut self, waiting: StreamHandle, other: StreamHandle) -> Result<bool, DriverError> {
        match self.wait(waiting, other) {
            Err(DriverError { status: Status::InvalidHandle, .. }) => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    /// Frees a block of which a stream is gone: behind all that any device does. See Note [Streams that are gone].
    /// `false` where no device can be waited for.
    fn free_after_all(&mut self, at: u64, own: StreamHandle) -> Result<bool, DriverError> {
        let Some(_quiet) = self.quiet() else { return Ok(false) };
        let unifying = self.ready(own.device)?.unifying;
        let uses = self.live[&at].uses.clone();
        for stream in uses.into_iter().chain([own]) {
            self.driver.device_synchronize(stream.device)?;
        }
        // SAFETY: the program has given the block up, and the devices have done all that they had of it.
        unsafe { self.driver.free_async(DevicePtr(at), unifying) }.map(|()| true)
    }

    /// Takes back memory that was asked for to see whether there is so much.
    pub(super) fn free_trial(&mut self, ptr: DevicePtr, bytes: u64, stream: StreamHandle) {
        let usage = Usage::new(bytes, stream);
        self.devices[usize::from(stream.device)].used += bytes;
        self.live.insert(ptr.0, Usage { freed: true, ..usage });
        self.free_now(ptr.0);
    }
}
