//! Streams.

use c10_cuda::driver::Driver;

use crate::abi::{Code, Handle, Out};
use crate::entry::exports;
use crate::machine::{HostFunction, Stream, StreamCallback, StreamKind};

/// What a default stream says of itself.
const DEFAULT_PRIORITY: i32 = 0;

exports! {
    Context fn cuStreamCreate(stream: Out<Handle>, flags: u32) |machine| {
        stream.check()?;
        stream.put(machine.create_stream(flags, DEFAULT_PRIORITY)?)
    }

    /// A priority beyond the range is the nearest in it.
    Context fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) |machine| {
        stream.check()?;
        stream.put(machine.create_stream(flags, priority)?)
    }

    GiveBack fn cuStreamDestroy_v2(stream: Handle) |machine| { machine.destroy_stream(stream) }

    Context fn cuStreamSynchronize(stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.before_wait(on)?;
        Ok(machine.sim.stream_synchronize(on.sim)?)
    }

    /// See the crate's documentation for how a program that asks in a loop gets to the end.
    Context fn cuStreamQuery(stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.before_wait(on)?;
        if machine.sim.stream_query(on.sim)? {
            return Ok(());
        }
        machine.go_on(on.sim);
        Err(Code::NOT_READY)
    }

    Context fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) |machine| {
        machine.stream(stream)?;
        let of = machine.streams.get(stream).map_or(DEFAULT_PRIORITY, |stream| stream.priority);
        priority.put(of)
    }

    Context fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) |machine| {
        let on = machine.stream(stream)?;
        flags.put(if on.kind == StreamKind::NonBlocking { Stream::NON_BLOCKING } else { 0 })
    }

    /// The default streams have the numbers of their context, and others numbers of their own.
    Context fn cuStreamGetId(stream: Handle, id: Out<u64>) |machine| {
        let on = machine.stream(stream)?;
        let of_default = machine.contexts.get(on.context)?.id;
        let of = machine.streams.get(stream).map_or(of_default, |stream| stream.id);
        id.put(of)
    }

    Context fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) |machine| {
        context.put(machine.stream(stream)?.context)
    }

    Context fn cuStreamGetDevice(stream: Handle, device: Out<i32>) |machine| {
        device.put(machine.stream(stream)?.sim.device.into())
    }

    Context fn cuLaunchHostFunc(
        stream: Handle,
        function: Option<extern "C" fn(*mut std::ffi::c_void)>,
        argument: u64,
    ) |machine| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let on = machine.stream(stream)?;
        machine.before_work(on)?;
        machine.launch_host_function(on.sim, HostFunction { function, argument })
    }

    Context fn cuStreamAddCallback(
        stream: Handle,
        callback: Option<StreamCallback>,
        argument: u64,
        flags: u32,
    ) |machine| {
        let callback = callback.filter(|_| flags == 0).ok_or(Code::INVALID_VALUE)?;
        let on = machine.stream(stream)?;
        // CUDA does not let captures have callbacks.
        if machine.is_capturing(on)? {
            machine.sim.stream_query(on.sim)?;
        }
        machine.before_work(on)?;
        machine.launch_callback(on.sim, (callback, stream), argument)
    }
}
