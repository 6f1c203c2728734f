//! Launches of functions.

use c10_cuda::driver::LaunchConfig;

use crate::abi::layout::LaunchConfigC;
use crate::abi::{Code, Handle, In, Outcome, bytes_at};
use crate::entry::exports;
use crate::machine::Machine;

/// What the values of `extra` are for: `CU_LAUNCH_PARAM_*`.
const END: u64 = 0;
const BUFFER: u64 = 1;
const BUFFER_BYTES: u64 = 2;

/// The arguments of a launch: by an address each, or all in one buffer.
struct Arguments {
    each: In<u64>,
    extra: In<u64>,
}

impl Arguments {
    /// The bytes of each.
    fn read(&self, sizes: &[usize], offsets: &[usize]) -> Outcome<Vec<Vec<u8>>> {
        match (self.each.is_null(), self.extra.is_null()) {
            (false, false) => Err(Code::INVALID_VALUE),
            (true, false) => self.read_buffer(sizes, offsets),
            (true, true) if !sizes.is_empty() => Err(Code::INVALID_VALUE),
            _ => {
                let addresses = self.each.read_all(sizes.len())?;
                addresses.into_iter().zip(sizes).map(|(at, &size)| bytes_at(at, size)).collect()
            }
        }
    }

    fn read_buffer(&self, sizes: &[usize], offsets: &[usize]) -> Outcome<Vec<Vec<u8>>> {
        let (mut buffer, mut bytes) = (0, 0);
        // A buffer, its size, and the end: more there cannot be.
        for pair in 0..3 {
            let words = self.extra.read_all(2 * pair + 1)?;
            match words[2 * pair] {
                END => break,
                BUFFER => buffer = self.extra.read_all(2 * pair + 2)?[2 * pair + 1],
                BUFFER_BYTES => {
                    let at = self.extra.read_all(2 * pair + 2)?[2 * pair + 1];
                    bytes = usize::from_ne_bytes(
                        bytes_at(at, size_of::<usize>())?.try_into().map_err(|_| Code::INVALID_VALUE)?,
                    );
                }
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        let all = bytes_at(buffer, bytes)?;
        let one = |(&at, &size): (&usize, &usize)| all.get(at..at + size).map(<[u8]>::to_vec);
        let read = offsets.iter().zip(sizes).map(one);
        read.collect::<Option<_>>().ok_or(Code::INVALID_VALUE)
    }
}

fn launch(
    machine: &mut Machine,
    function: Handle,
    stream: Handle,
    config: LaunchConfig,
    arguments: &Arguments,
) -> Outcome {
    let on = machine.stream_here(stream)?;
    let found = machine.launchable(function, on)?;
    let params = arguments.read(&found.params, &found.offsets())?;
    machine.launch(function, on, config, &params)
}

exports! {
    Context fn cuLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: Handle,
        each: In<u64>,
        extra: In<u64>,
    ) |machine| {
        let config =
            LaunchConfig { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
        launch(machine, function, stream, config, &Arguments { each, extra })
    }

    /// The host runs a kernel's blocks as one, which is as cooperative as can be.
    Context fn cuLaunchCooperativeKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: Handle,
        each: In<u64>,
    ) |machine| {
        let config =
            LaunchConfig { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
        launch(machine, function, stream, config, &Arguments { each, extra: In::ABSENT })
    }

    /// Attributes of a launch are refused: none of them would mean anything.
    Context fn cuLaunchKernelEx(
        config: In<LaunchConfigC>,
        function: Handle,
        each: In<u64>,
        extra: In<u64>,
    ) |machine| {
        let LaunchConfigC { grid, block, shared_bytes, stream, attributes: _, attribute_count } = config.read()?;
        if attribute_count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        launch(machine, function, stream, LaunchConfig { grid, block, shared_bytes }, &Arguments { each, extra })
    }
}
