//! Functions of modules: their attributes, and how many of their blocks fit a multiprocessor.

use std::ffi::c_char;

use super::devices::{
    BLOCKS_PER_MULTIPROCESSOR, SHARED_BYTES_PER_BLOCK, SHARED_BYTES_PER_MULTIPROCESSOR,
    THREADS_PER_MULTIPROCESSOR,
};
use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::exports;
use crate::machine::Machine;

/// `CU_FUNC_ATTRIBUTE_*`: those that a program can set, and the number of all.
const MAX_DYNAMIC_SHARED_BYTES: u32 = 8;
const SHARED_CARVEOUT: u32 = 9;
const CLUSTER_SETTINGS: std::ops::RangeInclusive<u32> = 11..=15;
const ATTRIBUTES: u32 = 18;

const MAX_THREADS: i32 = 1024;

/// How a function is by itself.
const fn attribute(which: u32) -> i32 {
    match which {
        0 => MAX_THREADS,
        // Registers.
        4 => 32,
        // The versions of the language and of the binary.
        5 | 6 => 90,
        MAX_DYNAMIC_SHARED_BYTES => SHARED_BYTES_PER_BLOCK,
        SHARED_CARVEOUT => -1,
        _ => 0,
    }
}

/// How many blocks fit, by threads and by shared memory.
fn blocks(machine: &Machine, function: Handle, block_size: i32, shared_bytes: usize) -> Outcome<i32> {
    machine.functions.get(function)?;
    if block_size <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    if block_size > MAX_THREADS {
        return Ok(0);
    }
    let by_threads = THREADS_PER_MULTIPROCESSOR / block_size;
    let by_memory = (SHARED_BYTES_PER_MULTIPROCESSOR as usize).checked_div(shared_bytes);
    let by_memory = by_memory.map_or(i32::MAX, |blocks| blocks as i32);
    Ok(by_threads.min(by_memory).min(BLOCKS_PER_MULTIPROCESSOR))
}

type SharedBytesOfBlock = Option<extern "C" fn(i32) -> usize>;

/// The block size, at most `limit` if that is not 0, by which most threads are at work.
fn best_block(
    machine: &Machine,
    function: Handle,
    of_block: SharedBytesOfBlock,
    shared_bytes: usize,
    limit: i32,
) -> Outcome<(i32, i32)> {
    let limit = if limit <= 0 { MAX_THREADS } else { limit.min(MAX_THREADS) };
    let mut best = (0, 0);
    for size in (1..=limit / 32).rev().map(|warps| warps * 32) {
        let shared = of_block.map_or(shared_bytes, |of_block| of_block(size));
        let fit = blocks(machine, function, size, shared)?;
        if fit * size > best.0 * best.1 {
            best = (size, fit);
        }
    }
    if best.0 == 0 { Err(Code::INVALID_VALUE) } else { Ok(best) }
}

fn put_best(machine: &Machine, grid: &Out<i32>, block: &Out<i32>, best: Outcome<(i32, i32)>) -> Outcome {
    let (size, fit) = best?;
    let props = c10_cuda::driver::Driver::device_props(&*machine.sim, machine.current_device()?)?;
    grid.put(fit * props.multi_processor_count as i32)?;
    block.put(size)
}

exports! {
    Context fn cuFuncGetAttribute(value: Out<i32>, which: u32, function: Handle) |machine| {
        let set = machine.functions.get(function)?.attributes.get(&which).copied();
        if which >= ATTRIBUTES {
            return Err(Code::INVALID_VALUE);
        }
        value.put(set.unwrap_or(attribute(which)))
    }

    Context fn cuFuncSetAttribute(function: Handle, which: u32, value: i32) |machine| {
        let attributes = &mut machine.functions.get_mut(function)?.attributes;
        let may = matches!(which, MAX_DYNAMIC_SHARED_BYTES | SHARED_CARVEOUT) || CLUSTER_SETTINGS.contains(&which);
        if !may || (which == MAX_DYNAMIC_SHARED_BYTES && !(0..=SHARED_BYTES_PER_MULTIPROCESSOR).contains(&value)) {
            return Err(Code::INVALID_VALUE);
        }
        attributes.insert(which, value);
        Ok(())
    }

    Context fn cuFuncSetCacheConfig(function: Handle, config: u32) |machine| {
        machine.functions.get(function)?;
        if config > 3 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    Context fn cuFuncGetModule(module: Out<Handle>, function: Handle) |machine| {
        let of = machine.functions.get(function)?.module;
        module.put(of)
    }

    Context fn cuFuncGetName(name: Out<*const c_char>, function: Handle) |machine| {
        let of = machine.functions.get(function)?.name.as_ptr();
        name.put(of)
    }

    Context fn cuFuncGetParamCount(function: Handle, count: Out<usize>) |machine| {
        let of = machine.functions.get(function)?.params.len();
        count.put(of)
    }

    Context fn cuFuncGetParamInfo(
        function: Handle,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) |machine| {
        let found = machine.functions.get(function)?;
        let bytes = *found.params.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.put(found.offsets()[index])?;
        size.put_if_wanted(bytes);
        Ok(())
    }

    Context fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<i32>,
        function: Handle,
        block_size: i32,
        shared_bytes: usize,
    ) |machine| {
        count.put(blocks(machine, function, block_size, shared_bytes)?)
    }

    Context fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<i32>,
        function: Handle,
        block_size: i32,
        shared_bytes: usize,
        flags: u32,
    ) |machine| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        count.put(blocks(machine, function, block_size, shared_bytes)?)
    }

    Context fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>,
        block: Out<i32>,
        function: Handle,
        of_block: SharedBytesOfBlock,
        shared_bytes: usize,
        limit: i32,
    ) |machine| {
        let best = best_block(machine, function, of_block, shared_bytes, limit);
        put_best(machine, &grid, &block, best)
    }

    Context fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>,
        block: Out<i32>,
        function: Handle,
        of_block: SharedBytesOfBlock,
        shared_bytes: usize,
        limit: i32,
        flags: u32,
    ) |machine| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let best = best_block(machine, function, of_block, shared_bytes, limit);
        put_best(machine, &grid, &block, best)
    }

    Context fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<usize>,
        function: Handle,
        count: i32,
        block_size: i32,
    ) |machine| {
        if count <= 0 || count > blocks(machine, function, block_size, 0)? {
            return Err(Code::INVALID_VALUE);
        }
        bytes.put((SHARED_BYTES_PER_MULTIPROCESSOR / count) as usize)
    }
}
