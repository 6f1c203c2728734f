//! Memory pools: the default one of each device is all there is.

use c10_core::DeviceIndex;
use c10_cuda::driver::{Driver, MemPoolInfo};

use crate::abi::layout::{MemAccessDesc, MemLocation};
use crate::abi::{Code, Handle, In, Out, OutAny, Outcome};
use crate::entry::exports;
use crate::machine::Machine;

/// `CU_MEMPOOL_ATTR_*`.
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

/// `CU_GRAPH_MEM_ATTR_*`.
const GRAPH_USED_CURRENT: u32 = 0;
const GRAPH_USED_HIGH: u32 = 1;
const GRAPH_RESERVED_CURRENT: u32 = 2;
const GRAPH_RESERVED_HIGH: u32 = 3;

fn device_of(machine: &Machine, pool: Handle) -> Outcome<DeviceIndex> {
    let index = machine.pools.iter().position(|known| *known == pool).ok_or(Code::INVALID_VALUE)?;
    DeviceIndex::try_from(index).map_err(|_| Code::INVALID_VALUE)
}

fn default_pool(machine: &Machine, pool: &Out<Handle>, device: i32) -> Outcome {
    pool.check()?;
    pool.put(machine.pools[usize::from(machine.device(device)?)])
}

fn graph_attribute(info: MemPoolInfo, attribute: u32) -> Outcome<u64> {
    Ok(match attribute {
        GRAPH_USED_CURRENT => info.used,
        GRAPH_USED_HIGH => info.used_peak,
        GRAPH_RESERVED_CURRENT => info.reserved,
        GRAPH_RESERVED_HIGH => info.reserved_peak,
        _ => return Err(Code::INVALID_VALUE),
    })
}

exports! {
    Init fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: i32) |machine| {
        default_pool(machine, &pool, device)
    }

    Init fn cuDeviceGetMemPool(pool: Out<Handle>, device: i32) |machine| { default_pool(machine, &pool, device) }

    /// A device has its default pool and can have no other.
    Init fn cuDeviceSetMemPool(device: i32, pool: Handle) |machine| {
        let device = machine.device(device)?;
        if device_of(machine, pool)? == device { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// The reuse policies, 1 to 3, are what a device does by default.
    Init fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: OutAny) |machine| {
        let device = device_of(machine, pool)?;
        let info = machine.sim.mem_pool_info(device)?;
        match attribute {
            1..=3 => value.of::<i32>().put(1),
            RELEASE_THRESHOLD => value.of::<u64>().put(machine.release_thresholds[usize::from(device)]),
            RESERVED_CURRENT => value.of::<u64>().put(info.reserved),
            RESERVED_HIGH => value.of::<u64>().put(info.reserved_peak),
            USED_CURRENT => value.of::<u64>().put(info.used),
            USED_HIGH => value.of::<u64>().put(info.used_peak),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// A peak can be set to 0 only, and both are then.
    Init fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: OutAny) |machine| {
        let device = device_of(machine, pool)?;
        match attribute {
            1..=3 => match value.of::<i32>().read()? {
                1 => Ok(()),
                _ => Err(Code::NOT_SUPPORTED),
            },
            RELEASE_THRESHOLD => {
                let bytes = value.of::<u64>().read()?;
                machine.sim.mem_pool_set_release_threshold(device, bytes)?;
                machine.release_thresholds[usize::from(device)] = bytes;
                Ok(())
            }
            RESERVED_HIGH | USED_HIGH => match value.of::<u64>().read()? {
                0 => Ok(machine.sim.mem_pool_reset_peaks(device)?),
                _ => Err(Code::INVALID_VALUE),
            },
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Init fn cuMemPoolTrimTo(pool: Handle, keep: usize) |machine| {
        let device = device_of(machine, pool)?;
        Ok(machine.sim.mem_pool_trim(device, keep as u64)?)
    }

    /// Access can be given, and not taken away.
    Init fn cuMemPoolSetAccess(pool: Handle, who: In<MemAccessDesc>, count: usize) |machine| {
        let device = device_of(machine, pool)?;
        for desc in who.read_all(count)? {
            let peer = machine.located(desc.location)?;
            match desc.flags {
                3 => machine.sim.mem_pool_set_access(device, peer)?,
                0 | 1 => return Err(Code::NOT_SUPPORTED),
                _ => return Err(Code::INVALID_VALUE),
            }
            machine.pool_access[usize::from(device)].insert(peer);
        }
        Ok(())
    }

    Init fn cuMemPoolGetAccess(flags: Out<u32>, pool: Handle, location: In<MemLocation>) |machine| {
        let device = device_of(machine, pool)?;
        let peer = machine.located(location.read()?)?;
        let may = device == peer || machine.pool_access[usize::from(device)].contains(&peer);
        flags.put(if may { 3 } else { 0 })
    }

    Context fn cuMemAllocFromPoolAsync(ptr: Out<u64>, bytes: usize, pool: Handle, stream: Handle) |machine| {
        ptr.check()?;
        let on = machine.stream(stream)?;
        // A pool serves the streams of its own device here.
        if device_of(machine, pool)? != on.sim.device {
            return Err(Code::NOT_SUPPORTED);
        }
        ptr.put(machine.malloc_async(bytes as u64, on)?)
    }

    Init fn cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: OutAny) |machine| {
        let info = machine.sim.graph_memory_info(machine.device(device)?)?;
        value.of::<u64>().put(graph_attribute(info, attribute)?)
    }

    Init fn cuDeviceSetGraphMemAttribute(device: i32, attribute: u32, value: OutAny) |machine| {
        let device = machine.device(device)?;
        match (attribute, value.of::<u64>().read()?) {
            (GRAPH_USED_HIGH | GRAPH_RESERVED_HIGH, 0) => Ok(machine.sim.graph_memory_reset_peaks(device)?),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
