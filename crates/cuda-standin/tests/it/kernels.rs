//! Kernel images: loading, functions, launches in both forms, and what cannot run here.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};

use crate::rig::{ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_VALUE, Rig, SUCCESS, call};

const NO_BINARY_FOR_GPU: u32 = 209;
const INVALID_PTX: u32 = 218;
const FILE_NOT_FOUND: u32 = 301;
const INVALID_IMAGE: u32 = 200;
const NOT_FOUND: u32 = 500;

const IMAGE: &str = "tensorplay host kernels 1\nfill_u32 8 4 8\nadd_f32 8 8 8 8\nspin 8\n";

pub(crate) fn load(image: &str) -> (u32, u64) {
    let image = CString::new(image).unwrap();
    let mut module = 0;
    (call!(cuModuleLoadData(&mut module => *mut u64, image.as_ptr() => *const c_char)), module)
}

pub(crate) fn get(module: u64, name: &str) -> (u32, u64) {
    let name = CString::new(name).unwrap();
    let mut function = 0;
    let result = call!(cuModuleGetFunction(
        &mut function => *mut u64, module => u64, name.as_ptr() => *const c_char
    ));
    (result, function)
}

fn launch_with(
    function: u64,
    stream: u64,
    block: u32,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    call!(cuLaunchKernel(
        function => u64,
        1 => u32, 1 => u32, 1 => u32,
        block => u32, 1 => u32, 1 => u32,
        0 => u32,
        stream => u64,
        each => *mut *mut c_void,
        extra => *mut *mut c_void,
    ))
}

/// Fills `count` words.
pub(crate) fn launch_fill(function: u64, stream: u64, ptr: u64, value: u32, count: u64) -> u32 {
    let (mut ptr, mut value, mut count) = (ptr, value, count);
    let mut each: [*mut c_void; 3] =
        [(&raw mut ptr).cast(), (&raw mut value).cast(), (&raw mut count).cast()];
    launch_with(function, stream, 128, each.as_mut_ptr(), std::ptr::null_mut())
}

#[test]
fn a_function_runs_with_its_arguments_by_address_and_in_a_buffer() {
    let rig = Rig::new(1);
    let (stream, ptr) = (rig.stream(), rig.malloc(64));
    let (loaded, module) = load(IMAGE);
    assert_eq!(loaded, SUCCESS);
    let (found, fill) = get(module, "fill_u32");
    assert_eq!(found, SUCCESS);
    assert_eq!(get(module, "fill_u32").1, fill, "a function is one");
    assert_eq!(launch_fill(fill, stream, ptr, 5, 16), SUCCESS);
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), SUCCESS);
    assert_eq!(rig.download(ptr, 8), [5, 0, 0, 0, 5, 0, 0, 0]);
    // A pointer, a number of four bytes, padding, a number of eight.
    let mut buffer = [0u8; 24];
    buffer[..8].copy_from_slice(&(ptr + 4).to_ne_bytes());
    buffer[8..12].copy_from_slice(&6u32.to_ne_bytes());
    buffer[16..].copy_from_slice(&1u64.to_ne_bytes());
    let bytes = [buffer.len(), 20].map(Cell::new);
    let mut extra: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(2),
        bytes[0].as_ptr().cast(),
        std::ptr::null_mut(),
    ];
    assert_eq!(launch_with(fill, stream, 1, std::ptr::null_mut(), extra.as_mut_ptr()), SUCCESS);
    assert_eq!(rig.download(ptr, 12), [5, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0]);
    extra[3] = bytes[1].as_ptr().cast();
    assert_eq!(launch_with(fill, stream, 1, std::ptr::null_mut(), extra.as_mut_ptr()), INVALID_VALUE);
    assert_eq!(launch_with(fill, stream, 0, std::ptr::null_mut(), extra.as_mut_ptr()), INVALID_VALUE);
    let (mut offset, mut size) = (0usize, 0usize);
    let info = |index: usize, offset: &mut usize, size: &mut usize| {
        call!(cuFuncGetParamInfo(
            fill => u64, index => usize, offset => *mut usize, size => *mut usize
        ))
    };
    assert_eq!(info(2, &mut offset, &mut size), SUCCESS);
    assert_eq!((offset, size), (16, 8));
    assert_eq!(info(3, &mut offset, &mut size), INVALID_VALUE);
    assert_eq!(call!(cuModuleUnload(module => u64)), SUCCESS);
    assert_eq!(call!(cuModuleUnload(module => u64)), INVALID_HANDLE);
    assert_eq!(launch_fill(fill, stream, ptr, 5, 16), INVALID_HANDLE);
    rig.end_stream(stream);
    rig.free(ptr);
}

#[test]
fn what_cannot_run_here_is_refused() {
    let rig = Rig::new(2);
    assert_eq!(load(".version 8.0\n.target sm_90\n").0, INVALID_PTX);
    assert_eq!(load("\x7fELF\x02\x01").0, NO_BINARY_FOR_GPU);
    assert_eq!(load("tensorplay host kernels 1\nnobody_has_this 8\n").0, INVALID_IMAGE);
    let nothing = std::ptr::null::<c_char>();
    assert_eq!(call!(cuModuleLoadData(&mut 0 => *mut u64, nothing => *const c_char)), INVALID_VALUE);
    let path = CString::new("/nowhere/image").unwrap();
    assert_eq!(call!(cuModuleLoad(&mut 0 => *mut u64, path.as_ptr() => *const c_char)), FILE_NOT_FOUND);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), IMAGE).unwrap();
    let path = CString::new(file.path().to_str().unwrap()).unwrap();
    let mut module = 0;
    assert_eq!(call!(cuModuleLoad(&mut module => *mut u64, path.as_ptr() => *const c_char)), SUCCESS);
    assert_eq!(get(module, "nobody_has_this").0, NOT_FOUND);
    // A function runs in the context of its module.
    let fill = get(module, "fill_u32").1;
    let second = rig.retain(1);
    rig.make_current(second);
    let ptr = rig.malloc(64);
    assert_eq!(launch_fill(fill, 0, ptr, 1, 1), INVALID_HANDLE);
    rig.free(ptr);
    rig.make_current(rig.context);
    let elsewhere = {
        rig.make_current(second);
        let stream = rig.stream();
        rig.make_current(rig.context);
        stream
    };
    assert_eq!(launch_fill(fill, elsewhere, ptr, 1, 1), INVALID_HANDLE);
    rig.end_stream(elsewhere);
    assert_eq!(call!(cuModuleUnload(module => u64)), SUCCESS);
}

#[test]
fn a_kernel_that_leaves_its_memory_loses_the_context() {
    let rig = Rig::new(1);
    let ptr = rig.malloc(64);
    let module = load(IMAGE).1;
    let fill = get(module, "fill_u32").1;
    // The launch is issued; what comes after it is told.
    assert_eq!(launch_fill(fill, 0, ptr, 1, 1 << 20), SUCCESS);
    assert_eq!(call!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 64 => usize)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuModuleUnload(module => u64)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuMemFree_v2(ptr => u64)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuDevicePrimaryCtxReset_v2(0 => i32)), SUCCESS);
    let again = rig.retain(0);
    rig.make_current(again);
    assert_eq!(call!(cuCtxSynchronize()), SUCCESS);
}

#[test]
fn functions_have_attributes_and_fit_so_often() {
    let _rig = Rig::new(1);
    let module = load(IMAGE).1;
    let spin = get(module, "spin").1;
    let mut value = 0;
    let get =
        |which: u32, value: &mut i32| call!(cuFuncGetAttribute(value => *mut i32, which => u32, spin => u64));
    assert_eq!(get(0, &mut value), SUCCESS);
    assert_eq!(value, 1024);
    assert_eq!(call!(cuFuncSetAttribute(spin => u64, 8 => u32, 100_000 => i32)), SUCCESS);
    assert_eq!(get(8, &mut value), SUCCESS);
    assert_eq!(value, 100_000);
    assert_eq!(call!(cuFuncSetAttribute(spin => u64, 0 => u32, 1 => i32)), INVALID_VALUE);
    assert_eq!(get(99, &mut value), INVALID_VALUE);
    let mut blocks = 0;
    let fit = call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &mut blocks => *mut i32, spin => u64, 256 => i32, 100_000 => usize
    ));
    assert_eq!((fit, blocks), (SUCCESS, 2));
    let (mut grid, mut block) = (0, 0);
    let best = call!(cuOccupancyMaxPotentialBlockSize(
        &mut grid => *mut i32,
        &mut block => *mut i32,
        spin => u64,
        std::ptr::null() => *const c_void,
        0 => usize,
        0 => i32,
    ));
    assert_eq!((best, block), (SUCCESS, 1024));
    assert!(grid > 0);
    assert_eq!(call!(cuModuleUnload(module => u64)), SUCCESS);
}
