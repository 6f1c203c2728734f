//! The library itself: initialization, version, errors, and finding entry points.

use std::ffi::c_char;

use c10_cuda::driver::Driver;

use super::symbol;
use crate::abi::{Code, Out, Text};
use crate::entry::exports;

/// Entry points that CUDA has in several versions: the name without one, and by version of CUDA which one is meant.
/// All others are meant whatever the version.
const VERSIONED: &[(&str, &[(i32, &str)])] = &[
    ("cuCtxCreate", &[(12_050, "cuCtxCreate_v4"), (11_040, "cuCtxCreate_v3"), (0, "cuCtxCreate_v2")]),
    ("cuEventElapsedTime", &[(12_080, "cuEventElapsedTime_v2"), (0, "cuEventElapsedTime")]),
    ("cuStreamGetCaptureInfo", &[(12_030, "cuStreamGetCaptureInfo_v3"), (0, "cuStreamGetCaptureInfo_v2")]),
    (
        "cuGraphNodeGetDependencies",
        &[(12_030, "cuGraphNodeGetDependencies_v2"), (0, "cuGraphNodeGetDependencies")],
    ),
    ("cuGraphExecUpdate", &[(12_000, "cuGraphExecUpdate_v2"), (0, "cuGraphExecUpdate")]),
    ("cuGetProcAddress", &[(12_000, "cuGetProcAddress_v2"), (0, "cuGetProcAddress")]),
    ("cuDeviceGetUuid", &[(11_040, "cuDeviceGetUuid_v2"), (0, "cuDeviceGetUuid")]),
];

/// The entry point that a program of a version means.
fn find(name: &str, version: i32) -> Option<*const ()> {
    let versions = VERSIONED.iter().find(|(known, _)| *known == name).map(|(_, versions)| *versions);
    match versions {
        Some(versions) => {
            let (_, full) = versions.iter().find(|(since, _)| *since <= version)?;
            symbol(full)
        }
        None => symbol(&format!("{name}_v2")).or_else(|| symbol(name)),
    }
}

/// What `cuGetProcAddress_v2` says of its result.
const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;

exports! {
    Nothing fn cuInit(flags: u32) |machine| { machine.initialize(flags) }

    Nothing fn cuDriverGetVersion(version: Out<i32>) |machine| { version.put(machine.sim.version() as i32) }

    Nothing fn cuGetErrorName(error: Code, name: Out<*const c_char>) |_| {
        name.check()?;
        let found = error.name_and_text();
        name.put(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    Nothing fn cuGetErrorString(error: Code, text: Out<*const c_char>) |_| {
        text.check()?;
        let found = error.name_and_text();
        text.put(found.map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    Nothing fn cuGetProcAddress(name: Text<'_>, at: Out<*const ()>, version: i32, flags: u64) |_| {
        at.check()?;
        if flags > 1 {
            return Err(Code::NOT_SUPPORTED);
        }
        let found = find(name.to_str()?, version);
        at.put(found.unwrap_or(std::ptr::null()))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    }

    Nothing fn cuGetProcAddress_v2(
        name: Text<'_>,
        at: Out<*const ()>,
        version: i32,
        flags: u64,
        status: Out<u32>,
    ) |_| {
        at.check()?;
        if flags > 1 {
            return Err(Code::NOT_SUPPORTED);
        }
        let found = find(name.to_str()?, version);
        at.put(found.unwrap_or(std::ptr::null()))?;
        status.put_if_wanted(if found.is_some() { FOUND } else { NOT_FOUND });
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    }

    /// There is nothing to profile.
    Context fn cuProfilerStart() |_| { Ok(()) }

    Context fn cuProfilerStop() |_| { Ok(()) }
}
