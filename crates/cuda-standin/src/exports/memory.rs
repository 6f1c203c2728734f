//! Memory of devices and pinned memory of the host.

use c10_cuda::driver::{Driver, StreamHandle};

use crate::abi::{Code, Handle, Out};
use crate::entry::exports;
use crate::machine::is_device_address;

exports! {
    Context fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |machine| {
        free.check()?;
        let info = machine.sim.memory_info(machine.current_device()?)?;
        total.put(info.total as usize)?;
        free.put(info.free as usize)
    }

    Context fn cuMemAlloc_v2(ptr: Out<u64>, bytes: usize) |machine| {
        ptr.check()?;
        ptr.put(machine.malloc(bytes as u64)?)
    }

    GiveBack fn cuMemFree_v2(ptr: u64) |machine| {
        let device = match machine.memory.allocations.get(&ptr) {
            Some(allocation) => machine.contexts.get(allocation.context).map(|context| context.device),
            None => return Err(Code::INVALID_VALUE),
        };
        machine.free(ptr, StreamHandle::default_of(device.map_err(|_| Code::CONTEXT_IS_DESTROYED)?))
    }

    Context fn cuMemAllocAsync(ptr: Out<u64>, bytes: usize, stream: Handle) |machine| {
        ptr.check()?;
        let on = machine.stream(stream)?;
        ptr.put(machine.malloc_async(bytes as u64, on)?)
    }

    GiveBack fn cuMemFreeAsync(ptr: u64, stream: Handle) |machine| {
        let on = machine.stream_even_if_lost(stream)?;
        machine.free_async(ptr, on)
    }

    Context fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, ptr: u64) |machine| {
        let (at, length) = machine.range_of(ptr).ok_or(Code::NOT_FOUND)?;
        base.put_if_wanted(at);
        bytes.put_if_wanted(length as usize);
        Ok(())
    }

    Context fn cuMemHostAlloc(ptr: Out<u64>, bytes: usize, flags: u32) |machine| {
        ptr.check()?;
        ptr.put(machine.host_alloc(bytes as u64, flags)?)
    }

    Context fn cuMemAllocHost_v2(ptr: Out<u64>, bytes: usize) |machine| {
        ptr.check()?;
        ptr.put(machine.host_alloc(bytes as u64, 0)?)
    }

    GiveBack fn cuMemFreeHost(ptr: u64) |machine| { machine.free_host(ptr) }

    Context fn cuMemHostRegister_v2(ptr: u64, bytes: usize, flags: u32) |machine| {
        machine.register_host(ptr, bytes as u64, flags)
    }

    GiveBack fn cuMemHostUnregister(ptr: u64) |machine| { machine.unregister_host(ptr) }

    Context fn cuMemHostGetFlags(flags: Out<u32>, ptr: u64) |machine| {
        let (_, found) = machine.memory.host_at(ptr).ok_or(Code::INVALID_VALUE)?;
        flags.put(found.flags)
    }

    /// Host memory has one address everywhere.
    Context fn cuMemHostGetDevicePointer_v2(device_ptr: Out<u64>, ptr: u64, flags: u32) |machine| {
        if flags != 0 || is_device_address(ptr) {
            return Err(Code::INVALID_VALUE);
        }
        machine.memory.host_at(ptr).ok_or(Code::INVALID_VALUE)?;
        device_ptr.put(ptr)
    }
}
