//! Virtual memory: reservations, physical memory, mappings. Everything counts in the simulator's granularity, and
//! physical memory is mapped whole.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use c10_core::DeviceIndex;
use c10_cuda::driver::{DevicePtr, Driver, PhysHandle};

use super::Machine;
use crate::abi::layout::{MemAccessDesc, MemAllocationProp, MemLocation};
use crate::abi::{Code, Handle, Outcome};

/// Physical memory. It is there until it is released as often as it was got, and mapped nowhere.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) sim: PhysHandle,
    /// How often the program holds it.
    pub(crate) holds: u32,
    pub(crate) maps: u32,
    /// The handle types with which it was made.
    pub(crate) handle_types: u32,
    /// Where its bytes lie once it has been exported.
    pub(crate) file: Option<Arc<File>>,
}

/// Physical memory behind addresses.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) physical: Handle,
    pub(crate) devices: BTreeSet<DeviceIndex>,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub(crate) const PINNED: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(crate) const FILE_DESCRIPTOR: u32 = 1;

impl Machine {
    /// The device that a location names.
    pub(crate) fn located(&self, location: MemLocation) -> Outcome<DeviceIndex> {
        if location.kind != MemLocation::DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        self.device(location.id)
    }

    /// The device of a description of memory.
    pub(crate) fn described(&self, prop: &MemAllocationProp) -> Outcome<DeviceIndex> {
        if prop.kind != PINNED || prop.handle_types & !FILE_DESCRIPTOR != 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.located(prop.location)
    }

    pub(crate) fn reserve(&mut self, bytes: u64, alignment: u64) -> Outcome<u64> {
        // Addresses of one device are as good for another's memory.
        let device = self.current_device().unwrap_or(0);
        let granularity = self.sim.granularity(device)?;
        if alignment != 0 && !alignment.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        if alignment > granularity {
            return Err(Code::NOT_SUPPORTED);
        }
        let range = self.sim.reserve(device, bytes)?;
        self.memory.forget_graphs_within(range.base.0, range.bytes);
        self.memory.reservations.insert(range.base.0, range.bytes);
        Ok(range.base.0)
    }

    pub(crate) fn free_range(&mut self, base: u64, bytes: u64) -> Outcome {
        if self.memory.reservations.get(&base) != Some(&bytes) {
            return Err(Code::INVALID_VALUE);
        }
        self.free_range_promised(base, bytes)?;
        self.memory.reservations.remove(&base);
        Ok(())
    }

    pub(crate) fn create(&mut self, bytes: u64, prop: &MemAllocationProp) -> Outcome<Handle> {
        let device = self.described(prop)?;
        let sim = self.sim.create(device, bytes)?;
        let handle_types = prop.handle_types;
        Ok(self.memory.physical.insert(Physical { sim, holds: 1, maps: 0, handle_types, file: None }))
    }

    /// The physical memory of a handle that the program holds.
    pub(crate) fn held(&self, handle: Handle) -> Outcome<&Physical> {
        let found = self.memory.physical.get(handle).ok().filter(|physical| physical.holds != 0);
        found.ok_or(Code::INVALID_VALUE)
    }

    pub(crate) fn release(&mut self, handle: Handle) -> Outcome {
        let sim = self.held(handle)?.sim;
        if self.held(handle)?.holds == 1 {
            self.sim.release(sim)?;
        }
        self.memory.physical.get_mut(handle)?.holds -= 1;
        self.forget_if_unused(handle);
        Ok(())
    }

    fn forget_if_unused(&mut self, handle: Handle) {
        if self.memory.physical.get(handle).is_ok_and(|physical| physical.holds == 0 && physical.maps == 0) {
            let _gone = self.memory.physical.remove(handle);
        }
    }

    pub(crate) fn map(&mut self, at: u64, bytes: u64, offset: u64, handle: Handle) -> Outcome {
        let sim = self.held(handle)?.sim;
        if offset != 0 || bytes != sim.bytes {
            return Err(Code::INVALID_VALUE);
        }
        self.sim.map(DevicePtr(at), sim)?;
        self.memory.physical.get_mut(handle)?.maps += 1;
        self.memory.mappings.insert(at, Mapping { bytes, physical: handle, devices: BTreeSet::new() });
        Ok(())
    }

    pub(crate) fn unmap(&mut self, at: u64, bytes: u64) -> Outcome {
        self.unmap_promised(at, bytes)?;
        let mapped: Vec<u64> = self.memory.mappings.range(at..at + bytes).map(|(&at, _)| at).collect();
        for at in mapped {
            let Some(Mapping { physical, .. }) = self.memory.mappings.remove(&at) else { continue };
            self.memory.physical.get_mut(physical)?.maps -= 1;
            self.forget_if_unused(physical);
        }
        Ok(())
    }

    pub(crate) fn set_access(&mut self, at: u64, bytes: u64, who: &[MemAccessDesc]) -> Outcome {
        let mut devices = Vec::new();
        for desc in who {
            match desc.flags {
                3 => devices.push(self.located(desc.location)?),
                // The simulator tells reading from writing by no mapping, and takes no access away.
                0 | 1 => return Err(Code::NOT_SUPPORTED),
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        self.sim.set_access(DevicePtr(at), bytes, &devices)?;
        for (_, mapping) in self.memory.mappings.range_mut(at..at + bytes) {
            mapping.devices.extend(&devices);
        }
        Ok(())
    }

    /// `cuMemRetainAllocationHandle`: another hold on the memory that is mapped at an address.
    pub(crate) fn retain_mapped(&mut self, at: u64) -> Outcome<Handle> {
        let (_, mapping) = self.memory.mapping_at(at).ok_or(Code::INVALID_VALUE)?;
        let handle = mapping.physical;
        let physical = self.memory.physical.get_mut(handle)?;
        // One that was released is the simulator's to end with its last mapping, and cannot be got back.
        if physical.holds == 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        physical.holds += 1;
        Ok(handle)
    }
}
