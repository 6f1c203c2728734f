//! Modules of kernels, and launching their functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::clock::device_cost;
use super::driver::as_work;
use super::host_kernels::{Accesses, Declared, HostKernel, KernelParams, parse_image};
use super::node::NodeWork;
use super::process::ProcessId;
use super::report::Touched;
use super::slab::{Id, Slab};
use super::state::State;
use super::work::Item;
use crate::driver::{Access, FunctionHandle, LaunchConfig, ModuleHandle, Status, StreamHandle};

/// What a block may have at most, in x, y and z.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// How many threads a block may have.
const MAX_THREADS: u64 = 1024;
/// What a grid may have at most.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// How much shared memory a block may ask for.
const MAX_SHARED_BYTES: u32 = 48 << 10;

/// The modules of a machine, and the functions that they have given.
#[derive(Debug)]
pub(super) struct Modules {
    modules: Slab<Module>,
    /// By module, and place in it.
    functions: Slab<(Id, usize)>,
}

#[derive(Debug)]
struct Module {
    device: DeviceIndex,
    process: ProcessId,
    /// Each with its handle, once it has been asked for.
    functions: Vec<(Declared, Option<Id>)>,
}

/// A launch of a function.
#[derive(Debug)]
pub(super) struct FunctionCall {
    pub(super) name: &'static str,
    kernel: HostKernel,
    config: LaunchConfig,
    params: KernelParams,
    pub(super) reads: Vec<Access>,
    pub(super) writes: Vec<Access>,
}

impl FunctionCall {
    /// What it uses.
    pub(super) fn touched(&self) -> impl Iterator<Item = Touched> {
        touched(&self.reads, &self.writes)
    }

    /// What it costs, in nanoseconds.
    pub(super) fn cost_ns(&self) -> u64 {
        let moved = self.touched().fold(0u64, |sum, range| sum.saturating_add(range.bytes));
        device_cost(moved).saturating_add((self.kernel.cost_ns)(&self.config, &self.params))
    }

    /// Its body, as a kernel's that is launched once.
    pub(super) fn body(&self) -> impl FnMut(&mut dyn crate::driver::KernelMemory) {
        |memory| (self.kernel.body)(&self.config, &self.params, memory)
    }
}

/// What a kernel's declared ranges are used for.
pub(super) fn touched(reads: &[Access], writes: &[Access]) -> impl Iterator<Item = Touched> {
    let used = |write| move |&Access { ptr, bytes }: &Access| Touched { ptr, bytes, write };
    reads.iter().map(used(false)).chain(writes.iter().map(used(true)))
}

impl Modules {
    pub(super) const fn new() -> Self {
        Self { modules: Slab::new(), functions: Slab::new() }
    }
}

fn fits(config: &LaunchConfig) -> bool {
    let within =
        |dims: [u32; 3], most: [u32; 3]| dims.iter().zip(most).all(|(n, most)| (1..=most).contains(n));
    let threads = config.block.iter().fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
    within(config.grid, MAX_GRID)
        && within(config.block, MAX_BLOCK)
        && threads <= MAX_THREADS
        && config.shared_bytes <= MAX_SHARED_BYTES
}

impl State {
    pub(super) fn module_load(&mut self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle, Status> {
        self.device(device)?;
        let functions = parse_image(image).ok_or(Status::InvalidImage)?;
        let functions = functions.into_iter().map(|declared| (declared, None)).collect();
        let module = Module { device, process: self.process, functions };
        let id = self.modules.modules.insert(module).ok_or(Status::OutOfMemory)?;
        Ok(ModuleHandle { device, raw: id.raw() })
    }

    fn module_id(&self, handle: ModuleHandle) -> Result<Id, Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        match self.modules.modules.get(id) {
            Some(module) if (module.device, module.process) == (handle.device, self.process) => Ok(id),
            _ => Err(Status::InvalidHandle),
        }
    }

    pub(super) fn module_unload(&mut self, handle: ModuleHandle) -> Result<(), Status> {
        let id = self.module_id(handle)?;
        let module = self.modules.modules.remove(id).ok_or(Status::InvalidHandle)?;
        for function in module.functions.into_iter().filter_map(|(_, function)| function) {
            self.modules.functions.remove(function);
        }
        Ok(())
    }

    pub(super) fn module_function(
        &mut self,
        handle: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle, Status> {
        let id = self.module_id(handle)?;
        let Modules { modules, functions } = &mut self.modules;
        let module = modules.get_mut(id).ok_or(Status::InvalidHandle)?;
        let at = module.functions.iter().position(|(declared, _)| declared.name == name);
        let at = at.ok_or(Status::NotFound)?;
        let given = &mut module.functions[at].1;
        let function = match *given {
            Some(function) => function,
            None => *given.insert(functions.insert((id, at)).ok_or(Status::OutOfMemory)?),
        };
        Ok(FunctionHandle { device: handle.device, raw: function.raw() })
    }

    fn declared(&self, handle: FunctionHandle) -> Result<&Declared, Status> {
        let id = Id::from_raw(handle.raw).ok_or(Status::InvalidHandle)?;
        let (module, at) = *self.modules.functions.get(id).ok_or(Status::InvalidHandle)?;
        let module = self.modules.modules.get(module).ok_or(Status::InvalidHandle)?;
        let own = (module.device, module.process) == (handle.device, self.process);
        let function = module.functions.get(at).filter(|_| own);
        function.map(|(declared, _)| declared).ok_or(Status::InvalidHandle)
    }

    pub(super) fn launch_function(
        &mut self,
        on: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        let declared = self.declared(function)?;
        if function.device != on.device {
            return Err(Status::InvalidHandle);
        }
        let params = declared.params(params).filter(|_| fits(&config)).ok_or(Status::InvalidValue)?;
        let (name, kernel) = (declared.name, declared.kernel);
        // A kernel that is no match for its image is the caller's fault, found before anything happens.
        let asked = as_work(|| {
            catch_unwind(AssertUnwindSafe(|| {
                let (reads, writes): Accesses = (kernel.accesses)(&config, &params);
                let call = FunctionCall { name, kernel, config, params, reads, writes };
                (call.cost_ns(), call)
            }))
        });
        let (cost_ns, call) = asked.map_err(|_| Status::InvalidValue)?;
        let call = Arc::new(call);
        if self.captures(id)? {
            self.add_node(id, NodeWork::Function(call), cost_ns);
            return Ok(());
        }
        self.order_with_default(id)?;
        self.watch_issue(id, name, false, call.touched(), []);
        self.issue(id, Item::Function(call), cost_ns, 0);
        Ok(())
    }
}
