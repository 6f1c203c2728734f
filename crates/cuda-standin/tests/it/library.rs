//! Before `cuInit`, errors as texts, entry points by name.

use std::ffi::{CStr, CString, c_char, c_void};

use crate::rig::{INVALID_VALUE, Rig, SUCCESS, call, function};

const NOT_FOUND: u32 = 500;

fn text(at: *const c_char) -> String {
    // SAFETY: the library's texts are constants that end in a zero.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

#[test]
fn errors_have_names_and_texts() {
    let _rig = Rig::new(1);
    let mut at: *const c_char = std::ptr::null();
    assert_eq!(call!(cuGetErrorName(700 => u32, &mut at => *mut *const c_char)), SUCCESS);
    assert_eq!(text(at), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(call!(cuGetErrorString(0 => u32, &mut at => *mut *const c_char)), SUCCESS);
    assert_eq!(text(at), "no error");
    assert_eq!(call!(cuGetErrorName(12345 => u32, &mut at => *mut *const c_char)), INVALID_VALUE);
    assert!(at.is_null());
    let nowhere = std::ptr::null_mut::<*const c_char>();
    assert_eq!(call!(cuGetErrorString(0 => u32, nowhere => *mut *const c_char)), INVALID_VALUE);
}

#[test]
fn entry_points_are_found_by_name_and_version() {
    let _rig = Rig::new(1);
    let find = |name: &str, version: i32| {
        let name = CString::new(name).unwrap();
        let (mut at, mut status): (*mut c_void, u32) = (std::ptr::null_mut(), 9);
        let result = call!(cuGetProcAddress_v2(
            name.as_ptr() => *const c_char,
            &mut at => *mut *mut c_void,
            version => i32,
            0 => u64,
            &mut status => *mut u32,
        ));
        (result, at, status)
    };
    let exported = |name: &str| function::<*mut c_void>(name);
    assert_eq!(find("cuMemAlloc", 12_040), (SUCCESS, exported("cuMemAlloc_v2"), 0));
    assert_eq!(find("cuInit", 12_040), (SUCCESS, exported("cuInit"), 0));
    assert_eq!(find("cuStreamWaitEvent", 12_040), (SUCCESS, exported("cuStreamWaitEvent"), 0));
    assert_eq!(find("cuStreamGetCaptureInfo", 12_000).1, exported("cuStreamGetCaptureInfo_v2"));
    assert_eq!(find("cuStreamGetCaptureInfo", 12_030).1, exported("cuStreamGetCaptureInfo_v3"));
    assert_eq!(find("cuNoSuchThing", 12_040), (NOT_FOUND, std::ptr::null_mut(), 1));
}

#[test]
fn null_where_a_result_goes_is_an_invalid_value() {
    let _rig = Rig::new(1);
    let null = std::ptr::null_mut::<u64>();
    assert_eq!(call!(cuMemAlloc_v2(null => *mut u64, 64 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuStreamCreate(null => *mut u64, 0 => u32)), INVALID_VALUE);
    assert_eq!(call!(cuEventCreate(null => *mut u64, 0 => u32)), INVALID_VALUE);
    assert_eq!(call!(cuDevicePrimaryCtxRetain(null => *mut u64, 0 => i32)), INVALID_VALUE);
    let nowhere = std::ptr::null_mut::<i32>();
    assert_eq!(call!(cuDeviceGetCount(nowhere => *mut i32)), INVALID_VALUE);
}
