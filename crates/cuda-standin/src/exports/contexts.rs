//! Contexts: primary ones and others, and which is current.

use c10_cuda::driver::Driver;

use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::exports;
use crate::machine::{Machine, check_flags, current};

/// The version that contexts say they are for: 3.2, as a real driver's do whatever its own is.
const API_VERSION: u32 = 3020;
/// `CU_LIMIT_*` go up to here.
const LAST_LIMIT: u32 = 10;

fn create(machine: &mut Machine, context: &Out<Handle>, flags: u32, device: i32) -> Outcome {
    context.check()?;
    check_flags(flags)?;
    let device = machine.device(device)?;
    let made = machine.make_context(device, flags, false);
    current::push(made);
    context.put(made)
}

exports! {
    Init fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) |machine| {
        context.check()?;
        let device = machine.device(device)?;
        context.put(machine.retain_primary(device)?)
    }

    Init fn cuDevicePrimaryCtxRelease_v2(device: i32) |machine| {
        let device = machine.device(device)?;
        machine.release_primary(device)
    }

    Init fn cuDevicePrimaryCtxReset_v2(device: i32) |machine| {
        let device = machine.device(device)?;
        machine.reset_primary(device);
        Ok(())
    }

    Init fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) |machine| {
        flags.check()?;
        let device = machine.device(device)?;
        let primary = &machine.primaries[usize::from(device)];
        active.put(i32::from(primary.context.is_some()))?;
        flags.put(primary.flags)
    }

    Init fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) |machine| {
        check_flags(flags)?;
        let device = machine.device(device)?;
        machine.primaries[usize::from(device)].flags = flags;
        Ok(())
    }

    Init fn cuCtxCreate_v2(context: Out<Handle>, flags: u32, device: i32) |machine| {
        create(machine, &context, flags, device)
    }

    Init fn cuCtxCreate_v3(context: Out<Handle>, affinities: u64, count: i32, flags: u32, device: i32) |machine| {
        if affinities != 0 || count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(machine, &context, flags, device)
    }

    Init fn cuCtxCreate_v4(context: Out<Handle>, params: u64, flags: u32, device: i32) |machine| {
        if params != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(machine, &context, flags, device)
    }

    Init fn cuCtxDestroy_v2(context: Handle) |machine| { machine.destroy_context(context) }

    Init fn cuCtxGetCurrent(context: Out<Handle>) |_| { context.put(current::top()) }

    Init fn cuCtxSetCurrent(context: Handle) |machine| {
        if !context.is_null() {
            machine.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?;
        }
        current::set(context);
        Ok(())
    }

    Init fn cuCtxPushCurrent_v2(context: Handle) |machine| {
        machine.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?;
        current::push(context);
        Ok(())
    }

    Init fn cuCtxPopCurrent_v2(context: Out<Handle>) |_| {
        let popped = current::pop().ok_or(Code::INVALID_CONTEXT)?;
        context.put_if_wanted(popped);
        Ok(())
    }

    Init fn cuCtxGetDevice(device: Out<i32>) |machine| {
        device.check()?;
        device.put(machine.current_device()?.into())
    }

    Init fn cuCtxGetApiVersion(context: Handle, version: Out<u32>) |machine| {
        machine.context_or_current(context)?;
        version.put(API_VERSION)
    }

    Init fn cuCtxGetId(context: Handle, id: Out<u64>) |machine| {
        let id_of = machine.context_or_current(context)?.1.id;
        id.put(id_of)
    }

    Init fn cuCtxGetFlags(flags: Out<u32>) |machine| {
        let of = machine.current_context()?.1.flags;
        flags.put(of)
    }

    Context fn cuCtxSetFlags(flags: u32) |machine| {
        check_flags(flags)?;
        machine.current_context_mut()?.flags = flags;
        Ok(())
    }

    Context fn cuCtxSynchronize() |machine| {
        let device = machine.current_device()?;
        Ok(machine.sim.device_synchronize(device)?)
    }

    Context fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) |machine| {
        let (low, high) = machine.sim.stream_priority_range(machine.current_device()?)?;
        least.put_if_wanted(low);
        greatest.put_if_wanted(high);
        Ok(())
    }

    /// A limit that was never set is 0: nothing of the machine has it.
    Context fn cuCtxGetLimit(value: Out<usize>, limit: u32) |machine| {
        if limit > LAST_LIMIT {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        let set = machine.current_context()?.1.limits.get(&limit).copied();
        value.put(set.unwrap_or(0))
    }

    Context fn cuCtxSetLimit(limit: u32, value: usize) |machine| {
        if limit > LAST_LIMIT {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        machine.current_context_mut()?.limits.insert(limit, value);
        Ok(())
    }

    Context fn cuCtxGetCacheConfig(config: Out<u32>) |machine| {
        let set = machine.current_context()?.1.cache_config;
        config.put(set)
    }

    Context fn cuCtxSetCacheConfig(config: u32) |machine| {
        if config > 3 {
            return Err(Code::INVALID_VALUE);
        }
        machine.current_context_mut()?.cache_config = config;
        Ok(())
    }

    Context fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) |machine| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.enable_peer(peer)
    }

    Context fn cuCtxDisablePeerAccess(peer: Handle) |machine| {
        machine.contexts.get(peer).map_err(|_| Code::INVALID_CONTEXT)?;
        let was = machine.current_context_mut()?.peers.contains(&peer);
        // The simulator takes no access away.
        Err(if was { Code::NOT_SUPPORTED } else { Code::PEER_ACCESS_NOT_ENABLED })
    }
}
