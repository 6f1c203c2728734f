#![expect(unsafe_code, reason = "hands on to the simulator what C programs promise CUDA")]
//! The simulator's unsafe calls. What each asks of its caller is what CUDA asks of a program that makes the
//! corresponding call, so that every program of the C interface has promised it: memory that work uses stays valid
//! until it has run, and nobody else uses it against that. Memory of devices is the simulator's own; a program that
//! breaks the promise there gets an error and nothing worse.

use std::ffi::c_void;
use std::ptr::NonNull;

use c10_cuda::driver::{
    Access, CopyEnd, DevicePtr, Driver, FunctionHandle, GraphExecHandle, KernelBody, KernelLaunch,
    LaunchConfig, ModuleHandle, StreamHandle,
};

use super::Machine;
use crate::abi::{Code, Outcome};
use crate::entry::as_host_function;

/// A host function of the program and its argument.
pub(crate) struct HostFunction {
    pub(crate) function: extern "C" fn(*mut c_void),
    pub(crate) argument: u64,
}

/// A stream callback of the program: stream, result, argument.
pub(crate) type StreamCallback = extern "C" fn(crate::abi::Handle, Code, *mut c_void);

impl Machine {
    pub(super) fn copy_promised(&self, on: StreamHandle, dst: CopyEnd, src: CopyEnd, bytes: u64) -> Outcome {
        // SAFETY: the program keeps both ends valid and to the copy until the stream has run it, as CUDA asks.
        Ok(unsafe { self.sim.copy(dst, src, bytes, on) }?)
    }

    pub(super) fn fill_promised(&self, on: StreamHandle, dst: u64, value: u8, bytes: u64) -> Outcome {
        // SAFETY: as in `copy_promised`, of the destination.
        Ok(unsafe { self.sim.fill(DevicePtr(dst), value, bytes, on) }?)
    }

    /// Issues something that runs on the host in the stream's order.
    pub(super) fn launch_promised(
        &self,
        on: StreamHandle,
        name: &'static str,
        writes: Vec<Access>,
        body: KernelBody,
    ) -> Outcome {
        let kernel = KernelLaunch { name, reads: Vec::new(), writes, body };
        // SAFETY: bodies of this crate touch what they declare and nothing else, and that is the program's to keep
        // valid, as in `copy_promised`.
        Ok(unsafe { self.sim.launch(on, kernel) }?)
    }

    /// Runs a host function of the program in the stream's order.
    pub(crate) fn launch_host_function(&self, on: StreamHandle, host: HostFunction) -> Outcome {
        let body = move |_: &mut dyn c10_cuda::driver::KernelMemory| {
            let argument = std::ptr::with_exposed_provenance_mut(host.argument as usize);
            as_host_function(|| (host.function)(argument));
        };
        self.launch_promised(on, "host function", Vec::new(), Box::new(body))
    }

    /// Runs a callback of the program in a stream's order; all before it has gone well.
    pub(crate) fn launch_callback(
        &self,
        on: StreamHandle,
        (callback, stream): (StreamCallback, crate::abi::Handle),
        argument: u64,
    ) -> Outcome {
        let body = move |_: &mut dyn c10_cuda::driver::KernelMemory| {
            let argument = std::ptr::with_exposed_provenance_mut(argument as usize);
            as_host_function(|| callback(stream, Code::SUCCESS, argument));
        };
        self.launch_promised(on, "callback", Vec::new(), Box::new(body))
    }

    pub(super) fn free_promised(&self, ptr: u64) -> Outcome {
        // SAFETY: the program uses the memory no more, as CUDA asks.
        Ok(unsafe { self.sim.free(DevicePtr(ptr)) }?)
    }

    pub(super) fn free_async_promised(&self, ptr: u64, on: StreamHandle) -> Outcome {
        // SAFETY: the program uses the memory no more behind this, as CUDA asks.
        Ok(unsafe { self.sim.free_async(DevicePtr(ptr), on) }?)
    }

    pub(super) fn free_range_promised(&self, base: u64, bytes: u64) -> Outcome {
        let range = c10_cuda::driver::VaRange { base: DevicePtr(base), bytes };
        // SAFETY: the program uses the addresses no more, as CUDA asks.
        Ok(unsafe { self.sim.free_range(range) }?)
    }

    pub(super) fn unmap_promised(&self, at: u64, bytes: u64) -> Outcome {
        // SAFETY: the program uses the addresses no more, as CUDA asks.
        Ok(unsafe { self.sim.unmap(DevicePtr(at), bytes) }?)
    }

    pub(super) fn host_free_promised(&self, address: u64) -> Outcome {
        let ptr = host_ptr(address)?;
        // SAFETY: the program uses the memory no more, as CUDA asks; the simulator knows what it gave.
        Ok(unsafe { self.sim.host_free(ptr) }?)
    }

    pub(super) fn host_register_promised(&self, address: u64, bytes: u64) -> Outcome {
        let ptr = host_ptr(address)?;
        // SAFETY: the program keeps the memory valid until it unregisters it, as CUDA asks.
        Ok(unsafe { self.sim.host_register(ptr, bytes) }?)
    }

    pub(super) fn host_unregister_promised(&self, address: u64) -> Outcome {
        let ptr = host_ptr(address)?;
        // SAFETY: no work uses the memory, as CUDA asks.
        Ok(unsafe { self.sim.host_unregister(ptr) }?)
    }

    pub(super) fn module_unload_promised(&self, module: ModuleHandle) -> Outcome {
        // SAFETY: no work uses the module, as CUDA asks.
        Ok(unsafe { self.sim.module_unload(module) }?)
    }

    pub(super) fn launch_function_promised(
        &self,
        on: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Outcome {
        // SAFETY: the program gives what the kernel asks, and keeps it valid until the stream has run it, as CUDA
        // asks.
        Ok(unsafe { self.sim.launch_function(on, function, config, params) }?)
    }

    pub(super) fn graph_launch_promised(&self, exec: GraphExecHandle, on: StreamHandle) -> Outcome {
        // SAFETY: the program keeps what the nodes use valid until the stream has run them, as CUDA asks.
        Ok(unsafe { self.sim.graph_launch(exec, on) }?)
    }
}

fn host_ptr(address: u64) -> Outcome<NonNull<u8>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize)).ok_or(Code::INVALID_VALUE)
}
