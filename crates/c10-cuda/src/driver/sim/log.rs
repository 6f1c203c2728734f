//! [`Call`] and [`Work`]: what was asked of the simulated driver, and what its streams did, as data and as text.

use std::collections::VecDeque;
use std::fmt;

use c10_core::DeviceIndex;

use crate::driver::{DevicePtr, EventHandle, Status, StreamHandle};

/// A call that changed something or failed. Its text is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The trait's method; `mem_pool_reserve` and `mem_pool_release` for what a memory pool took from its device or
    /// gave back, `graph_malloc` and `graph_free` for a graph's addresses, before the call in which it did.
    pub name: &'static str,
    /// The device that it was for.
    pub device: DeviceIndex,
    /// The address that it gave out or was given; null where it has none.
    pub ptr: DevicePtr,
    /// The size, in bytes; 0 where it has none.
    pub bytes: u64,
    /// The stream that it was given or gave out.
    pub stream: Option<StreamHandle>,
    /// The event that it was given or gave out.
    pub event: Option<EventHandle>,
    /// Why it failed, if it did.
    pub status: Option<Status>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} device {}", self.name, self.device)?;
        if let Some(event) = self.event {
            write!(f, " event {}", Number(event.raw))?;
        }
        if let Some(stream) = self.stream {
            write!(f, " stream {}", Number(stream.raw))?;
        }
        if !self.ptr.is_null() {
            write!(f, " at {}", self.ptr)?;
        }
        if self.bytes != 0 {
            write!(f, " bytes {}", self.bytes)?;
        }
        match self.status {
            Some(status) => write!(f, ": {status}"),
            None => Ok(()),
        }
    }
}

/// An item of work that a stream has run. Its text is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The stream.
    pub stream: StreamHandle,
    /// Its place in what was issued on the stream, from 1.
    pub place: u64,
    /// `record`, `wait`, `copy`, `fill`, or the kernel's name.
    pub name: &'static str,
    /// When it ends, in nanoseconds of virtual time.
    pub end_ns: u64,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, place, name, end_ns } = self;
        write!(f, "device {} stream {} #{place} {name} until {end_ns} ns", stream.device, Number(stream.raw))
    }
}

/// A handle's number: its index, with the generation behind a dot after the first.
pub(super) struct Number(pub(super) u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, generation) = ((self.0 & 0xffff_ffff) >> 1, self.0 >> 32);
        match generation {
            0 => write!(f, "{index}"),
            _ => write!(f, "{index}.{generation}"),
        }
    }
}

/// The newest entries, up to a bound.
#[derive(Debug)]
pub(super) struct Ring<T> {
    entries: VecDeque<T>,
    bound: usize,
}

impl<T> Ring<T> {
    pub(super) const fn new(bound: usize) -> Self {
        Self { entries: VecDeque::new(), bound }
    }

    /// Whether it keeps anything.
    pub(super) const fn is_on(&self) -> bool {
        self.bound != 0
    }

    pub(super) fn set_bound(&mut self, bound: usize) {
        self.bound = bound;
        let over = self.entries.len().saturating_sub(bound);
        self.entries.drain(..over);
    }

    pub(super) fn push(&mut self, entry: T) {
        if self.entries.len() >= self.bound {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(super) fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.entries).into()
    }
}
