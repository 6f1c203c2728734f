//! Kernel images. What CUDA's compilers make cannot run here, and is refused as a device refuses what is not for it.

use std::fs;

use crate::abi::{Code, Handle, In, Out, Outcome, Text, bytes_until_zero};
use crate::entry::exports;
use crate::machine::Machine;

/// The first words of an image that the simulator runs.
const FORMAT: &[u8] = b"tensorplay host kernels";
/// What images begin with that are not texts: object files, and CUDA's bundles of them.
const BINARIES: [&[u8]; 2] = [b"\x7fELF", &0xba55_ed50u32.to_le_bytes()];

/// Loads an image, of which `head` are the first bytes; `all` gives the whole of a text.
fn load(machine: &mut Machine, head: &[u8], all: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<Handle> {
    if BINARIES.iter().any(|binary| head.starts_with(binary)) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let image = all()?;
    if image.starts_with(FORMAT) {
        return machine.load_module(&image);
    }
    // A text of another kind can only be meant as PTX.
    Err(Code::INVALID_PTX)
}

/// An image in memory, which has no length but its own.
fn load_at(machine: &mut Machine, module: &Out<Handle>, image: In<u8>) -> Outcome {
    module.check()?;
    let head = image.read_all(4)?;
    module.put(load(machine, &head, || bytes_until_zero(image).map(<[u8]>::to_vec))?)
}

exports! {
    Context fn cuModuleLoad(module: Out<Handle>, path: Text<'_>) |machine| {
        module.check()?;
        let image = fs::read(path.to_str()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        module.put(load(machine, &image, || Ok(image.clone()))?)
    }

    Context fn cuModuleLoadData(module: Out<Handle>, image: In<u8>) |machine| { load_at(machine, &module, image) }

    /// There is no compiler that the options could be for.
    Context fn cuModuleLoadDataEx(
        module: Out<Handle>,
        image: In<u8>,
        _count: u32,
        _options: u64,
        _values: u64,
    ) |machine| {
        load_at(machine, &module, image)
    }

    GiveBack fn cuModuleUnload(module: Handle) |machine| { machine.unload_module(module) }

    Context fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text<'_>) |machine| {
        function.check()?;
        function.put(machine.module_function(module, name.to_str()?)?)
    }

    Context fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) |machine| {
        let of = machine.modules.get(module)?.function_count();
        count.put(of as u32)
    }

    /// The simulator's images have no variables.
    Context fn cuModuleGetGlobal_v2(_ptr: Out<u64>, _bytes: Out<usize>, module: Handle, name: Text<'_>) |machine| {
        machine.modules.get(module)?;
        name.to_str()?;
        Err(Code::NOT_FOUND)
    }
}
