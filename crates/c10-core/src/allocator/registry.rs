#![expect(
    unsafe_code,
    reason = "reads records through atomic pointers, which are never freed while they can be read"
)]
//! The registry of allocators: one slot per device type, by priority (`SetAllocator`, `GetAllocator`).
//!
//! Reads take no lock and count nothing: a slot is an atomic pointer to a record. A record that another one
//! replaces is unlinked from the slot and kept, in a chain behind its successor, until the registry itself
//! ends; the process-wide ones never do. So a reference that was read stays good, and the cost is one record
//! for each allocator that was ever set.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

#[cfg(loom)]
use super::CpuAllocator as HostAllocator;
#[cfg(not(loom))]
use super::HostAllocator;
use super::{Allocator, MetaAllocator};
use crate::device::DeviceType;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicPtr, Ordering};

/// Makes `allocator` the process's allocator of a device type, unless the present one has a higher priority
/// (`c10::SetAllocator`; equal priority replaces). Says whether it was stored.
///
/// Memory of the allocator before it stays valid, and so does that allocator.
pub fn set_allocator(device_type: DeviceType, allocator: Arc<dyn Allocator>, priority: u8) -> bool {
    DEVICE.set(device_type, allocator, priority)
}

/// The process's allocator of a device type (`c10::GetAllocator`). The host has a [`HostAllocator`] from the
/// start.
///
/// # Errors
/// [`ErrorKind::DeviceUnavailable`] when none was set.
#[inline]
pub fn get_allocator(device_type: DeviceType) -> Result<&'static Arc<dyn Allocator>> {
    DEVICE.get(device_type)
}

/// The process's allocator of the host, if it is the [`HostAllocator`] that was there from the start and somebody has
/// asked for it.
#[cfg(not(loom))]
#[inline]
pub(crate) fn default_host_allocator() -> Option<&'static Arc<dyn Allocator>> {
    let record = DEVICE.slot(DeviceType::Cpu).get()?;
    record.is_default.then_some(&record.allocator)
}

/// As [`set_allocator`], for *host* memory that a device type can reach without a copy through the system:
/// pinned memory (`setHostAllocator`).
pub fn set_pinned_allocator(device_type: DeviceType, allocator: Arc<dyn Allocator>, priority: u8) -> bool {
    PINNED.set(device_type, allocator, priority)
}

/// As [`get_allocator`], for host memory pinned for a device type (`getHostAllocator`).
///
/// # Errors
/// [`ErrorKind::DeviceUnavailable`] when none was set.
pub fn get_pinned_allocator(device_type: DeviceType) -> Result<&'static Arc<dyn Allocator>> {
    PINNED.get(device_type)
}

#[cfg(not(loom))]
type Static = AllocatorRegistry;
#[cfg(loom)]
type Static = crate::sync::global::LazyLock<AllocatorRegistry>;

#[cfg(not(loom))]
static DEVICE: Static = AllocatorRegistry::with_host_default();
#[cfg(not(loom))]
static PINNED: Static = AllocatorRegistry::new();
#[cfg(loom)]
static DEVICE: Static = Static::new(AllocatorRegistry::with_host_default);
#[cfg(loom)]
static PINNED: Static = Static::new(AllocatorRegistry::new);

const SLOTS: usize = DeviceType::ALL.len();

/// A table of allocators, one slot per device type. The process has one behind [`set_allocator`] and one
/// behind [`set_pinned_allocator`]; others are for whoever wants a table of their own.
pub struct AllocatorRegistry {
    slots: [Slot; SLOTS],
    /// Whether an empty host slot is filled with a `HostAllocator` when it is read.
    host_default: bool,
}

struct Slot {
    newest: AtomicPtr<Record>,
    /// Says to the compiler that records are shared among threads and owned here.
    owned: PhantomData<Box<Record>>,
}

struct Record {
    allocator: Arc<dyn Allocator>,
    priority: u8,
    /// It came with the registry.
    #[cfg_attr(loom, expect(dead_code, reason = "no storages are kept under loom"))]
    is_default: bool,
    /// What this record replaced; the chain is only walked at the end.
    replaced: *mut Record,
}

// SAFETY: the allocator is `Send + Sync`, and `replaced` is written before the record is published and read only
// when the registry ends.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl AllocatorRegistry {
    /// A table without any allocator.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { slots: [const { Slot::new() }; SLOTS], host_default: false }
    }

    /// A table whose host slot holds a [`HostAllocator`] of priority 0 once somebody asks for it.
    #[cfg(not(loom))]
    pub const fn with_host_default() -> Self {
        Self { slots: [const { Slot::new() }; SLOTS], host_default: true }
    }

    /// A table without any allocator.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { slots: std::array::from_fn(|_| Slot::new()), host_default: false }
    }

    /// A table whose host slot holds a [`HostAllocator`] of priority 0 once somebody asks for it.
    #[cfg(loom)]
    pub fn with_host_default() -> Self {
        Self { slots: std::array::from_fn(|_| Slot::new()), host_default: true }
    }

    /// Stores `allocator` if `priority` is at least that of the present one, and says whether it did.
    pub fn set(&self, device_type: DeviceType, allocator: Arc<dyn Allocator>, priority: u8) -> bool {
        self.slot(device_type).set(allocator, priority)
    }

    /// The allocator of a device type; good for as long as the table.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`] when none was set.
    #[inline]
    pub fn get(&self, device_type: DeviceType) -> Result<&Arc<dyn Allocator>> {
        match self.slot(device_type).get() {
            Some(record) => Ok(&record.allocator),
            None => self.get_default(device_type),
        }
    }

    #[cold]
    fn get_default(&self, device_type: DeviceType) -> Result<&Arc<dyn Allocator>> {
        let slot = self.slot(device_type);
        if self.host_default && device_type == DeviceType::Cpu {
            slot.set_if_empty(Arc::new(HostAllocator));
        }
        if self.host_default && device_type == DeviceType::Meta {
            slot.set_if_empty(Arc::new(MetaAllocator));
        }
        slot.get().map(|record| &record.allocator).ok_or_else(|| {
            Error::new(
                ErrorKind::DeviceUnavailable,
                format!("no allocator is registered for the device type {device_type}"),
            )
        })
    }

    #[inline]
    fn slot(&self, device_type: DeviceType) -> &Slot {
        &self.slots[device_type as usize]
    }
}

impl Slot {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    #[inline]
    fn get(&self) -> Option<&Record> {
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: a pointer in the slot is null or a record that was written before it was published, and that
        // lives until the slot's end.
        unsafe { newest.as_ref() }
    }

    fn set(&self, allocator: Arc<dyn Allocator>, priority: u8) -> bool {
        let mut record =
            Box::new(Record { allocator, priority, is_default: false, replaced: ptr::null_mut() });
        loop {
            let present = self.newest.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            if unsafe { present.as_ref() }.is_some_and(|present| priority < present.priority) {
                return false;
            }
            record.replaced = present;
            match self.publish(present, record) {
                Ok(()) => return true,
                Err(again) => record = again,
            }
        }
    }

    fn set_if_empty(&self, allocator: Arc<dyn Allocator>) {
        let record = Box::new(Record { allocator, priority: 0, is_default: true, replaced: ptr::null_mut() });
        // Whoever was first is as good.
        drop(self.publish(ptr::null_mut(), record));
    }

    /// Puts `record` in the place of `present`, or gives it back if that is not there any more.
    fn publish(&self, present: *mut Record, record: Box<Record>) -> Result<(), Box<Record>> {
        let new = Box::into_raw(record);
        match self.newest.compare_exchange(present, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the box was made raw just now, and nobody else saw it.
            Err(_) => Err(unsafe { Box::from_raw(new) }),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut next = self.newest.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: records came from boxes, each is in one chain once, and nobody can read them any more.
            let record = unsafe { Box::from_raw(next) };
            next = record.replaced;
        }
    }
}

impl Default for AllocatorRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AllocatorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = DeviceType::ALL.into_iter().filter_map(|device_type| {
            let record = self.slot(device_type).get()?;
            Some((device_type.name(), (&record.allocator, record.priority)))
        });
        f.debug_map().entries(filled).finish()
    }
}
