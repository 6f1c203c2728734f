#![expect(unsafe_code, reason = "reserves addresses, makes physical memory, and maps it")]
//! Virtual memory: reservations, physical memory, mappings.
//!
//! The book knows them all, so that a call that CUDA would carry out in part is refused whole. One lock covers the book
//! and the calls that change it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_uint;

use c10_core::DeviceIndex;

use super::abi::{self, MemAccessDesc, MemAllocationProp, attribute};
use super::device::attribute_of;
use super::driver::RealDriver;
use super::ipc::ExportedFile;
use super::memory::length;
use super::status::check;
use crate::driver::{DevicePtr, PhysHandle, Status, VaRange};
use crate::sync::lock;

/// Reservations and mappings by first address; physical memory by the driver's value.
#[derive(Debug, Default)]
pub(super) struct VirtualMemory {
    pub(super) reservations: BTreeMap<u64, (DeviceIndex, u64)>,
    /// The length of each mapping, and the device that its memory is on.
    pub(super) mappings: BTreeMap<u64, (DeviceIndex, u64)>,
    pub(super) physical: HashMap<u64, Physical>,
}

/// Physical memory of which there are handles.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) device: DeviceIndex,
    pub(super) bytes: u64,
    /// How many handles have this value: an import may give one again.
    pub(super) handles: u32,
    /// The file that other processes get, once there is one.
    pub(super) exported: Option<ExportedFile>,
}

impl VirtualMemory {
    /// The memory of a handle that has not been released.
    pub(super) fn physical(&mut self, handle: PhysHandle) -> Result<&mut Physical, Status> {
        let known = self.physical.get_mut(&handle.raw).ok_or(Status::InvalidHandle)?;
        let same = (known.device, known.bytes) == (handle.device, handle.bytes);
        if same { Ok(known) } else { Err(Status::InvalidHandle) }
    }

    /// The device of the reservation that holds `[at, end)`.
    fn reserved(&self, at: u64, end: u64) -> Result<DeviceIndex, Status> {
        match self.reservations.range(..=at).next_back() {
            Some((&base, &(device, bytes))) if end <= base + bytes => Ok(device),
            _ => Err(Status::InvalidValue),
        }
    }

    /// The device of the reservation at an address, for an error's text.
    fn device_at(&self, at: DevicePtr) -> DeviceIndex {
        self.reserved(at.0, at.0).unwrap_or(0)
    }

    /// Whether anything is mapped in `[at, end)`.
    fn is_mapped(&self, at: u64, end: u64) -> bool {
        self.mappings.range(..end).next_back().is_some_and(|(&base, &(_, bytes))| base + bytes > at)
    }

    /// The first addresses of the mappings that cover a range exactly.
    fn covering(&self, at: DevicePtr, bytes: u64) -> Result<Vec<u64>, Status> {
        let end = at.0.checked_add(bytes).filter(|_| bytes != 0).ok_or(Status::InvalidValue)?;
        let mut reached = at.0;
        let mut found = Vec::new();
        for (&base, &(_, length)) in self.mappings.range(at.0..end) {
            if base != reached {
                break;
            }
            found.push(base);
            reached += length;
        }
        if reached == end { Ok(found) } else { Err(Status::InvalidValue) }
    }

    /// The device of an address that is mapped.
    pub(super) fn device_of(&self, ptr: DevicePtr) -> Option<DeviceIndex> {
        let (&base, &(device, bytes)) = self.mappings.range(..=ptr.0).next_back()?;
        (ptr.0 - base < bytes).then_some(device)
    }
}

impl RealDriver {
    /// The device of a range of addresses; 0 where there is none.
    pub(super) fn device_of_range(&self, at: DevicePtr) -> DeviceIndex {
        lock(&self.virtual_memory).device_at(at)
    }

    pub(super) fn granularity_of(&self, device: DeviceIndex) -> Result<u64, Status> {
        if let Some(&known) = self.device(device)?.granularity.get() {
            return Ok(known);
        }
        self.on(device, |symbols, known| {
            let prop = MemAllocationProp::on(known.ordinal, 0);
            let mut unit = 0;
            // SAFETY: there is room for one number, and the properties are those of a device.
            check(unsafe {
                (symbols.mem_get_allocation_granularity)(&mut unit, &prop, abi::GRANULARITY_MINIMUM)
            })?;
            Ok(*known.granularity.get_or_init(|| (unit as u64).max(1)))
        })
    }

    /// A length of whole units.
    fn whole_units(&self, device: DeviceIndex, bytes: u64) -> Result<usize, Status> {
        let unit = self.granularity_of(device)?;
        if bytes.is_multiple_of(unit) { length(bytes) } else { Err(Status::InvalidValue) }
    }

    pub(super) fn reserve_range(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange, Status> {
        let length = self.whole_units(device, bytes)?;
        let base = self.on(device, |symbols, _| {
            let mut base = 0;
            // SAFETY: there is room for one address; where it lies and how it is aligned is the driver's choice.
            check(unsafe { (symbols.mem_address_reserve)(&mut base, length, 0, 0, 0) })?;
            Ok(base)
        })?;
        lock(&self.virtual_memory).reservations.insert(base, (device, bytes));
        Ok(VaRange { base: DevicePtr(base), bytes })
    }

    /// # Safety
    /// As [`Driver::free_range`](crate::driver::Driver::free_range).
    pub(super) unsafe fn free_reservation(&self, range: VaRange) -> Result<(), Status> {
        let mut book = lock(&self.virtual_memory);
        let base = range.base.0;
        let known = book.reservations.get(&base).filter(|(_, bytes)| *bytes == range.bytes).copied();
        let (device, bytes) = known.ok_or(Status::InvalidValue)?;
        if book.is_mapped(base, base + bytes) {
            return Err(Status::InvalidValue);
        }
        // SAFETY: it is a whole reservation with nothing mapped, and the caller says that nobody uses it.
        self.on(device, |symbols, _| check(unsafe { (symbols.mem_address_free)(base, bytes as usize) }))?;
        book.reservations.remove(&base);
        Ok(())
    }

    /// In which ways new physical memory of a device can be exported.
    pub(super) fn handle_types(&self, device: DeviceIndex) -> Result<c_uint, Status> {
        let known = self.device(device)?;
        let exports = match known.exports_by_descriptor.get() {
            Some(&exports) => exports,
            None => {
                let which = attribute::POSIX_FILE_DESCRIPTOR_SUPPORTED;
                let supported = attribute_of(&self.library.symbols, known.ordinal, which)?;
                *known.exports_by_descriptor.get_or_init(|| cfg!(target_os = "linux") && supported != 0)
            }
        };
        Ok(if exports { abi::POSIX_FILE_DESCRIPTOR } else { 0 })
    }

    pub(super) fn create_physical(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle, Status> {
        let length = self.whole_units(device, bytes)?;
        let handle_types = self.handle_types(device)?;
        let raw = self.on(device, |symbols, known| {
            let prop = MemAllocationProp::on(known.ordinal, handle_types);
            let mut raw = 0;
            // SAFETY: there is room for one handle, and the properties are those of a device.
            check(unsafe { (symbols.mem_create)(&mut raw, length, &prop, 0) })?;
            Ok(raw)
        })?;
        let memory = PhysHandle { device, raw, bytes };
        self.note_physical(memory);
        Ok(memory)
    }

    /// Writes a handle down that the driver gave; not one that is known as of other memory.
    pub(super) fn note_physical(&self, handle: PhysHandle) -> bool {
        let PhysHandle { device, raw, bytes } = handle;
        let mut book = lock(&self.virtual_memory);
        let new = Physical { device, bytes, handles: 0, exported: None };
        let known = book.physical.entry(raw).or_insert(new);
        if (known.device, known.bytes) != (device, bytes) {
            return false;
        }
        known.handles += 1;
        true
    }

    pub(super) fn release_physical(&self, handle: PhysHandle) -> Result<(), Status> {
        let mut book = lock(&self.virtual_memory);
        book.physical(handle)?;
        // SAFETY: the handle is live.
        self.on(handle.device, |symbols, _| check(unsafe { (symbols.mem_release)(handle.raw) }))?;
        let known = book.physical(handle)?;
        known.handles -= 1;
        if known.handles == 0 {
            book.physical.remove(&handle.raw);
        }
        Ok(())
    }

    pub(super) fn map_physical(&self, at: DevicePtr, handle: PhysHandle) -> Result<(), Status> {
        let mut book = lock(&self.virtual_memory);
        book.physical(handle)?;
        let unit = self.granularity_of(handle.device)?;
        let end = at.0.checked_add(handle.bytes).filter(|_| at.0.is_multiple_of(unit));
        let end = end.ok_or(Status::InvalidValue)?;
        let device = book.reserved(at.0, end)?;
        if book.is_mapped(at.0, end) {
            return Err(Status::AlreadyMapped);
        }
        self.on(device, |symbols, _| {
            // SAFETY: the addresses are reserved and nothing is mapped there, and the handle is live, and so long.
            check(unsafe { (symbols.mem_map)(at.0, handle.bytes as usize, 0, handle.raw, 0) })
        })?;
        book.mappings.insert(at.0, (handle.device, handle.bytes));
        Ok(())
    }

    pub(super) fn let_in(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<(), Status> {
        let book = lock(&self.virtual_memory);
        let mappings = book.covering(at, bytes)?;
        let device = book.reserved(at.0, at.0 + 1)?;
        let access = |&device: &DeviceIndex| Ok(MemAccessDesc::read_write(self.device(device)?.ordinal));
        let access = devices.iter().map(access).collect::<Result<Vec<_>, Status>>()?;
        if access.is_empty() || mappings.is_empty() {
            return Err(Status::InvalidValue);
        }
        self.on(device, |symbols, _| {
            // SAFETY: the range is whole mappings, and there are so many descriptions.
            check(unsafe { (symbols.mem_set_access)(at.0, bytes as usize, access.as_ptr(), access.len()) })
        })
    }

    /// # Safety
    /// As [`Driver::unmap`](crate::driver::Driver::unmap).
    pub(super) unsafe fn unmap_range(&self, at: DevicePtr, bytes: u64) -> Result<(), Status> {
        let mut book = lock(&self.virtual_memory);
        let mappings = book.covering(at, bytes)?;
        let device = book.reserved(at.0, at.0 + 1)?;
        // SAFETY: the range is whole mappings, and the caller says that nothing uses it.
        self.on(device, |symbols, _| check(unsafe { (symbols.mem_unmap)(at.0, bytes as usize) }))?;
        for base in mappings {
            book.mappings.remove(&base);
        }
        Ok(())
    }
}
