//! Kernel images and their functions. An image is a text of the simulator's format; what it does not know of a
//! function beyond that, its parameters' sizes, is read off the text here.

use std::collections::BTreeMap;

use c10_cuda::driver::{Driver, FunctionHandle, LaunchConfig, ModuleHandle};

use super::{Machine, OnStream};
use crate::abi::{Code, Handle, Outcome};

/// A loaded image.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) context: Handle,
    pub(crate) sim: ModuleHandle,
    /// The sizes of each function's parameters, by name.
    params: BTreeMap<String, Vec<usize>>,
    /// Functions that the program has asked for, by name.
    functions: BTreeMap<String, Handle>,
}

impl Module {
    pub(crate) fn function_count(&self) -> usize {
        self.params.len()
    }
}

/// A function of a module.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) context: Handle,
    pub(crate) sim: FunctionHandle,
    pub(crate) name: std::ffi::CString,
    /// The sizes of its parameters.
    pub(crate) params: Vec<usize>,
    /// What the program has set, by attribute.
    pub(crate) attributes: BTreeMap<u32, i32>,
}

impl Function {
    /// The offset of each parameter in the argument buffer, each aligned as its size says, as a compiler lays numbers
    /// and pointers out.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let mut end = 0usize;
        let place = |&size: &usize| {
            let at = end.next_multiple_of(size.next_power_of_two().clamp(1, 16));
            end = at + size;
            at
        };
        self.params.iter().map(place).collect()
    }
}

/// The sizes of the parameters of each function of an image: a line each behind the first, `NAME BYTES BYTES …`.
fn params_of(image: &[u8]) -> BTreeMap<String, Vec<usize>> {
    let text = std::str::from_utf8(image).unwrap_or_default();
    let function = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.map_while(|word| word.parse().ok()).collect()))
    };
    text.lines().skip(1).filter_map(function).collect()
}

impl Machine {
    pub(crate) fn load_module(&mut self, image: &[u8]) -> Outcome<Handle> {
        let (context, found) = self.current_context()?;
        let sim = self.sim.module_load(found.device, image)?;
        let params = params_of(image);
        Ok(self.modules.insert(Module { context, sim, params, functions: BTreeMap::new() }))
    }

    pub(crate) fn unload_module(&mut self, module: Handle) -> Outcome {
        let sim = self.modules.get(module)?.sim;
        self.module_unload_promised(sim)?;
        let gone = self.modules.remove(module)?;
        for function in gone.functions.into_values() {
            self.functions.remove(function)?;
        }
        Ok(())
    }

    /// The same function has the same handle.
    pub(crate) fn module_function(&mut self, module: Handle, name: &str) -> Outcome<Handle> {
        let found = self.modules.get_mut(module)?;
        if let Some(function) = found.functions.get(name) {
            return Ok(*function);
        }
        let sim = self.sim.module_function(found.sim, name)?;
        let function = Function {
            module,
            context: found.context,
            sim,
            name: std::ffi::CString::new(name).map_err(|_| Code::INVALID_VALUE)?,
            params: found.params.get(name).cloned().unwrap_or_default(),
            attributes: BTreeMap::new(),
        };
        let function = self.functions.insert(function);
        found.functions.insert(name.to_owned(), function);
        Ok(function)
    }

    /// A function that can be launched on a stream: all three are of the current context.
    pub(crate) fn launchable(&self, function: Handle, on: OnStream) -> Outcome<&Function> {
        let found = self.functions.get(function)?;
        if found.context == on.context { Ok(found) } else { Err(Code::INVALID_HANDLE) }
    }

    pub(crate) fn launch(
        &mut self,
        function: Handle,
        on: OnStream,
        config: LaunchConfig,
        params: &[Vec<u8>],
    ) -> Outcome {
        const THREADS: u64 = 1024;
        let sizes = config.grid.iter().chain(&config.block);
        let threads = config.block.iter().map(|&n| u64::from(n)).product::<u64>();
        if sizes.into_iter().any(|&n| n == 0) || threads > THREADS {
            return Err(Code::INVALID_VALUE);
        }
        let sim = self.launchable(function, on)?.sim;
        self.before_work(on)?;
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        self.launch_function_promised(on.sim, sim, config, &params)
    }
}
