//! What CUDA has and this machine does not: managed memory, pools of the program's own, memory of other interfaces,
//! clusters of blocks. A device that cannot do such things refuses them, and so do these; what is wrong with the call
//! by itself is told first.

use crate::abi::layout::MemLocation;
use crate::abi::{Code, Handle, Out};
use crate::entry::exports;

exports! {
    Context fn cuMemAllocManaged(ptr: Out<u64>, bytes: usize, _flags: u32) |_| {
        ptr.check()?;
        Err(if bytes == 0 { Code::INVALID_VALUE } else { Code::NOT_SUPPORTED })
    }

    /// An address that is not of managed memory is none that there could be advice on.
    Context fn cuMemAdvise(_ptr: u64, _bytes: usize, _advice: u32, _device: i32) |_| { Err(Code::INVALID_VALUE) }

    Context fn cuMemAdvise_v2(_ptr: u64, _bytes: usize, _advice: u32, _location: MemLocation) |_| {
        Err(Code::INVALID_VALUE)
    }

    Context fn cuMemPrefetchAsync(_ptr: u64, _bytes: usize, _device: i32, stream: Handle) |machine| {
        machine.stream(stream)?;
        Err(Code::INVALID_VALUE)
    }

    Context fn cuMemPrefetchAsync_v2(
        _ptr: u64,
        _bytes: usize,
        _location: MemLocation,
        _flags: u32,
        stream: Handle,
    ) |machine| {
        machine.stream(stream)?;
        Err(Code::INVALID_VALUE)
    }

    Context fn cuStreamAttachMemAsync(stream: Handle, _ptr: u64, _bytes: usize, _flags: u32) |machine| {
        machine.stream(stream)?;
        Err(Code::INVALID_VALUE)
    }

    Init fn cuMemPoolCreate(pool: Out<Handle>, _props: u64) |_| {
        pool.check()?;
        Err(Code::NOT_SUPPORTED)
    }

    /// The default pools, which are all there are, stay.
    Init fn cuMemPoolDestroy(_pool: Handle) |_| { Err(Code::INVALID_VALUE) }

    Context fn cuImportExternalMemory(memory: Out<Handle>, _description: u64) |_| {
        memory.check()?;
        Err(Code::NOT_SUPPORTED)
    }

    Context fn cuExternalMemoryGetMappedBuffer(_ptr: Out<u64>, _memory: Handle, _description: u64) |_| {
        Err(Code::INVALID_HANDLE)
    }

    Context fn cuDestroyExternalMemory(_memory: Handle) |_| { Err(Code::INVALID_HANDLE) }

    Context fn cuOccupancyMaxActiveClusters(_count: Out<i32>, function: Handle, _config: u64) |machine| {
        machine.functions.get(function)?;
        Err(Code::NOT_SUPPORTED)
    }

    Context fn cuOccupancyMaxPotentialClusterSize(_size: Out<i32>, function: Handle, _config: u64) |machine| {
        machine.functions.get(function)?;
        Err(Code::NOT_SUPPORTED)
    }
}
