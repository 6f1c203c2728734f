#![expect(unsafe_code, reason = "passes on the contract of the allocator that it wraps")]
//! [`FaultAllocator`]: an adaptor that fails by a script, to test what others do then.

use std::sync::Arc;

use super::Allocator;
use crate::data_ptr::{DataPtr, Deleter};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sync::{Mutex, lock};

/// Which requests fail. Requests are numbered from 1 since the script was set; those of 0 bytes, which need no
/// memory, have no number and never fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request of this number.
    Nth(u64),
    /// Each request whose number is a multiple of this; 0 is none.
    EveryNth(u64),
    /// The requests of these numbers.
    Calls(Vec<u64>),
    /// Each request of more bytes than this.
    LargerThan(usize),
    /// This request and all later ones, until another script is set.
    FromNth(u64),
}

/// Wraps any allocator and fails where a script says so, before the inner allocator is asked.
///
/// The inner allocator's pointers pass through unchanged, and so do its raw calls.
#[derive(Debug)]
pub struct FaultAllocator {
    inner: Arc<dyn Allocator>,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    faults: Vec<Fault>,
    requests: u64,
    injected: u64,
}

impl FaultAllocator {
    /// Fails what any of `faults` names.
    pub fn new(inner: Arc<dyn Allocator>, faults: impl Into<Vec<Fault>>) -> Self {
        let script = Script { faults: faults.into(), ..Script::default() };
        Self { inner, script: Mutex::new(script) }
    }

    /// Puts another script in place of the present one and numbers requests from 1 again.
    pub fn reset(&self, faults: impl Into<Vec<Fault>>) {
        *lock(&self.script) = Script { faults: faults.into(), ..Script::default() };
    }

    /// How many requests were made since the script was set.
    pub fn requests(&self) -> u64 {
        lock(&self.script).requests
    }

    /// How many of them failed by the script.
    pub fn injected(&self) -> u64 {
        lock(&self.script).injected
    }

    /// The allocator behind this one.
    pub fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }
}

// SAFETY: every call is the inner allocator's, or fails.
unsafe impl Allocator for FaultAllocator {
    fn device(&self) -> Device {
        self.inner.device()
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes > 0 {
            lock(&self.script).next(bytes)?;
        }
        self.inner.allocate(bytes)
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.inner.copy_data(dst, src, bytes) }
    }

    fn is_simple_data_ptr(&self, ptr: &DataPtr) -> bool {
        self.inner.is_simple_data_ptr(ptr)
    }

    fn raw_deleter(&self) -> Option<Deleter> {
        self.inner.raw_deleter()
    }
}

impl Script {
    fn next(&mut self, bytes: usize) -> Result<()> {
        self.requests += 1;
        let number = self.requests;
        if self.faults.iter().any(|fault| fault.hits(number, bytes)) {
            self.injected += 1;
            return Err(Error::out_of_memory(
                bytes as u64,
                format!("request {number}, of {bytes} bytes, fails by the script of a fault injection"),
            ));
        }
        Ok(())
    }
}

impl Fault {
    fn hits(&self, number: u64, bytes: usize) -> bool {
        match self {
            Self::Nth(n) => number == *n,
            Self::EveryNth(n) => *n != 0 && number.is_multiple_of(*n),
            Self::Calls(numbers) => numbers.contains(&number),
            Self::LargerThan(most) => bytes > *most,
            Self::FromNth(n) => number >= *n,
        }
    }
}
