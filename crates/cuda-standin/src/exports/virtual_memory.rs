//! Virtual memory.

use c10_cuda::driver::Driver;

use crate::abi::layout::{MemAccessDesc, MemAllocationProp, MemLocation};
use crate::abi::{Code, Handle, In, Out};
use crate::entry::exports;
use crate::machine::PINNED;

exports! {
    Init fn cuMemGetAllocationGranularity(bytes: Out<usize>, prop: In<MemAllocationProp>, option: u32) |machine| {
        bytes.check()?;
        let device = machine.described(&prop.read()?)?;
        if option > 1 {
            return Err(Code::INVALID_VALUE);
        }
        bytes.put(machine.sim.granularity(device)? as usize)
    }

    /// The wanted address is a hint, and not taken.
    Init fn cuMemAddressReserve(ptr: Out<u64>, bytes: usize, alignment: usize, _wanted: u64, flags: u64) |machine| {
        ptr.check()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        ptr.put(machine.reserve(bytes as u64, alignment as u64)?)
    }

    Init fn cuMemAddressFree(ptr: u64, bytes: usize) |machine| { machine.free_range(ptr, bytes as u64) }

    Init fn cuMemCreate(handle: Out<Handle>, bytes: usize, prop: In<MemAllocationProp>, flags: u64) |machine| {
        handle.check()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.put(machine.create(bytes as u64, &prop.read()?)?)
    }

    Init fn cuMemRelease(handle: Handle) |machine| { machine.release(handle) }

    Init fn cuMemMap(ptr: u64, bytes: usize, offset: usize, handle: Handle, flags: u64) |machine| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.map(ptr, bytes as u64, offset as u64, handle)
    }

    Init fn cuMemUnmap(ptr: u64, bytes: usize) |machine| { machine.unmap(ptr, bytes as u64) }

    Init fn cuMemSetAccess(ptr: u64, bytes: usize, who: In<MemAccessDesc>, count: usize) |machine| {
        if count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.set_access(ptr, bytes as u64, &who.read_all(count)?)
    }

    Init fn cuMemGetAccess(flags: Out<u64>, location: In<MemLocation>, ptr: u64) |machine| {
        let device = machine.located(location.read()?)?;
        let (_, mapping) = machine.memory.mapping_at(ptr).ok_or(Code::INVALID_VALUE)?;
        flags.put(if mapping.devices.contains(&device) { 3 } else { 0 })
    }

    Init fn cuMemRetainAllocationHandle(handle: Out<Handle>, ptr: u64) |machine| {
        handle.check()?;
        handle.put(machine.retain_mapped(ptr)?)
    }

    Init fn cuMemGetAllocationPropertiesFromHandle(prop: Out<MemAllocationProp>, handle: Handle) |machine| {
        let physical = machine.held(handle)?;
        prop.put(MemAllocationProp {
            kind: PINNED,
            handle_types: physical.handle_types,
            location: MemLocation::device(physical.sim.device.into()),
            win32_meta_data: 0,
            flags: [0; 8],
        })
    }
}
