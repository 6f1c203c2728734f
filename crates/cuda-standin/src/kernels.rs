//! Kernels that programs of the C interface register: a module's image names them, and they run on the host.
//!
//! The simulator knows a kernel by plain functions, which have nothing of their own. So each of a fixed number of
//! places has functions that look the program's up by their place.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use c10_cuda::driver::sim::{HostKernel, KernelParams, register_host_kernel};
use c10_cuda::driver::{Access, DevicePtr, KernelMemory, LaunchConfig};

use crate::abi::{Code, Outcome};
use crate::entry::as_host_function;

/// How many kernels there can be.
const PLACES: usize = 32;
/// How many ranges a kernel can read, and how many it can write.
const RANGES: usize = 16;

/// A range of a device's memory, as the program says it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    ptr: u64,
    bytes: u64,
}

/// A launch, as the program sees it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    param_count: u32,
    params: *const *const c_void,
}

/// Says what a launch reads and writes.
pub(crate) type Accesses = extern "C" fn(&Launch, *mut Range, *mut u32, *mut Range, *mut u32);
/// Does it.
pub(crate) type Body = extern "C" fn(&Launch, *const *const u8, *const *mut u8);

#[derive(Clone, Copy)]
struct Registered {
    name: &'static str,
    accesses: Accesses,
    body: Body,
}

static KERNELS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn kernels() -> MutexGuard<'static, Vec<Registered>> {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says what functions of a name do. A name that is registered keeps its place.
pub(crate) fn register(name: &str, accesses: Accesses, body: Body) -> Outcome {
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(Code::INVALID_VALUE);
    }
    let mut kernels = kernels();
    if let Some(known) = kernels.iter_mut().find(|known| known.name == name) {
        (known.accesses, known.body) = (accesses, body);
        return Ok(());
    }
    let place = *TRAMPOLINES.get(kernels.len()).ok_or(Code::OUT_OF_MEMORY)?;
    // As many names as there are places, for ever.
    let name: &'static str = Box::leak(Box::from(name));
    kernels.push(Registered { name, accesses, body });
    register_host_kernel(name, place);
    Ok(())
}

/// Calls the program with a launch.
fn with_launch<R>(config: &LaunchConfig, params: &KernelParams, call: impl FnOnce(&Launch) -> R) -> R {
    let arguments: Vec<*const c_void> =
        (0..params.count()).map(|index| params.bytes(index).as_ptr().cast()).collect();
    call(&Launch {
        grid: config.grid,
        block: config.block,
        shared_bytes: config.shared_bytes,
        param_count: arguments.len() as u32,
        params: arguments.as_ptr(),
    })
}

/// What a launch reads, and what it writes.
fn ranges(place: usize, config: &LaunchConfig, params: &KernelParams) -> [Vec<Access>; 2] {
    let kernel = kernels()[place];
    let (mut reads, mut writes) = ([Range::default(); RANGES], [Range::default(); RANGES]);
    let (mut read_count, mut write_count) = (0, 0);
    with_launch(config, params, |launch| {
        as_host_function(|| {
            let (reads, writes) = (reads.as_mut_ptr(), writes.as_mut_ptr());
            (kernel.accesses)(launch, reads, &raw mut read_count, writes, &raw mut write_count);
        });
    });
    let taken = |ranges: [Range; RANGES], count: u32| {
        let ranges = ranges.into_iter().take(count as usize).filter(|range| range.bytes != 0);
        ranges.map(|Range { ptr, bytes }| Access { ptr: DevicePtr(ptr), bytes }).collect()
    };
    [taken(reads, read_count), taken(writes, write_count)]
}

/// What is written is read before, so that what the kernel leaves out stays.
fn accesses<const PLACE: usize>(config: &LaunchConfig, params: &KernelParams) -> (Vec<Access>, Vec<Access>) {
    let [reads, writes] = ranges(PLACE, config, params);
    ([reads, writes.clone()].concat(), writes)
}

fn body<const PLACE: usize>(config: &LaunchConfig, params: &KernelParams, memory: &mut dyn KernelMemory) {
    let kernel = kernels()[PLACE];
    let [reads, writes] = ranges(PLACE, config, params);
    let contents = |first: usize, ranges: &[Access]| -> Vec<Vec<u8>> {
        let one = |(index, range): (usize, &Access)| {
            let mut bytes = vec![0; range.bytes as usize];
            memory.read(first + index, 0, &mut bytes);
            bytes
        };
        ranges.iter().enumerate().map(one).collect()
    };
    let read = contents(0, &reads);
    let mut written = contents(reads.len(), &writes);
    let read_at: Vec<*const u8> = read.iter().map(|bytes| bytes.as_ptr()).collect();
    let written_at: Vec<*mut u8> = written.iter_mut().map(|bytes| bytes.as_mut_ptr()).collect();
    with_launch(config, params, |launch| {
        as_host_function(|| (kernel.body)(launch, read_at.as_ptr(), written_at.as_ptr()));
    });
    for (index, bytes) in written.iter().enumerate() {
        memory.write(index, 0, bytes);
    }
}

macro_rules! trampolines {
    ($($place:literal)*) => { [$(HostKernel::new(accesses::<$place>, body::<$place>)),*] };
}

static TRAMPOLINES: [HostKernel; PLACES] = trampolines!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);
