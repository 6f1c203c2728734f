#![expect(unsafe_code, reason = "reads registered hooks through pointers to records that are never freed")]
//! The process-wide registry of [`DeviceHooks`]: one slot per device type.
//!
//! A slot points to a record. Records are unlinked but never freed, so that a look-up is one load with no
//! lock, and hooks that somebody still holds stay valid. There are as many records as registrations.

use std::ptr;
use std::sync::Arc;

use super::DeviceHooks;
use crate::device::DeviceType;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::global::atomic::{AtomicPtr, Ordering};

type Record = Arc<dyn DeviceHooks>;

static SLOTS: [AtomicPtr<Record>; DeviceType::ALL.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; DeviceType::ALL.len()];

/// Makes `hooks` those of their device type, in the place of any before, which are returned.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for the host and for `meta`, which have no hooks.
pub fn register_hooks(hooks: Arc<dyn DeviceHooks>) -> Result<Option<&'static dyn DeviceHooks>> {
    let device_type = hooks.device_type();
    if matches!(device_type, DeviceType::Cpu | DeviceType::Meta) {
        return Err(Error::invalid_argument(format!("device type {device_type} takes no hooks")));
    }
    let record = Box::into_raw(Box::new(hooks));
    Ok(read(slot(device_type).swap(record, Ordering::AcqRel)))
}

/// Leaves a device type without hooks, and returns those that it had.
pub fn unregister_hooks(device_type: DeviceType) -> Option<&'static dyn DeviceHooks> {
    read(slot(device_type).swap(ptr::null_mut(), Ordering::AcqRel))
}

/// The hooks of a device type (`getDeviceGuardImpl`).
pub fn hooks(device_type: DeviceType) -> Option<&'static dyn DeviceHooks> {
    read(slot(device_type).load(Ordering::Acquire))
}

/// The hooks of a device type.
///
/// # Errors
/// [`ErrorKind::DeviceUnavailable`] when there are none.
pub fn require_hooks(device_type: DeviceType) -> Result<&'static dyn DeviceHooks> {
    hooks(device_type).ok_or_else(|| {
        Error::new(
            ErrorKind::DeviceUnavailable,
            format!("no device hooks are registered for device type {device_type}"),
        )
    })
}

fn slot(device_type: DeviceType) -> &'static AtomicPtr<Record> {
    &SLOTS[device_type as usize]
}

fn read(record: *mut Record) -> Option<&'static dyn DeviceHooks> {
    // SAFETY: a pointer that is not null came out of a slot, where only `register_hooks` puts boxes that
    // nobody frees or writes again; the swap that put it there was a release, and every read acquires.
    let record: Option<&'static Record> = unsafe { record.as_ref() };
    record.map(|hooks| &**hooks)
}
