//! CUDA's types and numbers, as functions of the driver take them.
//!
//! They are cudarc's where those are the same whichever CUDA version a build asks cudarc for. Structures that have
//! grown unions since are declared here, as the functions under their old names take them, and numbers that the driver
//! gives back are numbers: one that an enum does not have is no fault of it.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys;

pub(super) use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUipcEventHandle, CUipcMemHandle, CUmemGenericAllocationHandle, CUmemoryPool, CUmodule, CUstream,
};

/// What a function of the driver returns (`CUresult`).
pub(super) type RawResult = c_uint;

/// Where memory is (`CUmemLocation`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemLocation {
    pub(super) kind: c_uint,
    pub(super) id: c_int,
}

impl MemLocation {
    /// On the device of that number (`CU_MEM_LOCATION_TYPE_DEVICE`).
    pub(super) const fn device(id: c_int) -> Self {
        Self { kind: 1, id }
    }
}

/// What physical memory is like (`CUmemAllocationProp`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct MemAllocationProp {
    pub(super) kind: c_uint,
    pub(super) requested_handle_types: c_uint,
    pub(super) location: MemLocation,
    pub(super) win32_handle_meta_data: *mut c_void,
    pub(super) compression_type: u8,
    pub(super) gpu_direct_rdma_capable: u8,
    pub(super) usage: u16,
    pub(super) reserved: [u8; 4],
}

impl MemAllocationProp {
    /// Pinned memory of a device (`CU_MEM_ALLOCATION_TYPE_PINNED`), that can be exported in the given ways.
    pub(super) const fn on(device: c_int, handle_types: c_uint) -> Self {
        Self {
            kind: 1,
            requested_handle_types: handle_types,
            location: MemLocation::device(device),
            win32_handle_meta_data: ptr::null_mut(),
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        }
    }
}

/// What a device may do with memory (`CUmemAccessDesc`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct MemAccessDesc {
    pub(super) location: MemLocation,
    pub(super) flags: c_uint,
}

impl MemAccessDesc {
    /// Read and write (`CU_MEM_ACCESS_FLAGS_PROT_READWRITE`).
    pub(super) const fn read_write(device: c_int) -> Self {
        Self { location: MemLocation::device(device), flags: 3 }
    }
}

// What cudarc's structures say, where they say the same in all versions.
const _: () = {
    assert!(size_of::<MemAllocationProp>() == size_of::<sys::CUmemAllocationProp>());
    assert!(size_of::<MemAccessDesc>() == size_of::<sys::CUmemAccessDesc>());
    assert!(size_of::<MemLocation>() == size_of::<sys::CUmemLocation>());
};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(super) const POSIX_FILE_DESCRIPTOR: c_uint = 1;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(super) const GRANULARITY_MINIMUM: c_uint = 0;

/// Attributes of devices (`CUdevice_attribute`).
pub(super) mod attribute {
    use std::ffi::c_int;

    use cudarc::driver::sys::CUdevice_attribute as Attribute;

    pub(in super::super) const WARP_SIZE: c_int = Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE as c_int;
    pub(in super::super) const MULTIPROCESSOR_COUNT: c_int =
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int;
    pub(in super::super) const COMPUTE_CAPABILITY_MAJOR: c_int =
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int;
    pub(in super::super) const COMPUTE_CAPABILITY_MINOR: c_int =
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int;
    pub(in super::super) const POSIX_FILE_DESCRIPTOR_SUPPORTED: c_int =
        Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED as c_int;
}

/// Attributes of memory pools (`CUmemPool_attribute`).
pub(super) mod pool {
    use std::ffi::c_uint;

    use cudarc::driver::sys::CUmemPool_attribute as Attribute;

    pub(in super::super) const RELEASE_THRESHOLD: c_uint =
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as c_uint;
    pub(in super::super) const RESERVED: c_uint = Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as c_uint;
    pub(in super::super) const RESERVED_HIGH: c_uint = Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as c_uint;
    pub(in super::super) const USED: c_uint = Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as c_uint;
    pub(in super::super) const USED_HIGH: c_uint = Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH as c_uint;
}

/// Attributes of the memory of graphs (`CUgraphMem_attribute`).
pub(super) mod graph_memory {
    use std::ffi::c_uint;

    use cudarc::driver::sys::CUgraphMem_attribute as Attribute;

    pub(in super::super) const USED: c_uint = Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT as c_uint;
    pub(in super::super) const USED_HIGH: c_uint = Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH as c_uint;
    pub(in super::super) const RESERVED: c_uint = Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT as c_uint;
    pub(in super::super) const RESERVED_HIGH: c_uint =
        Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH as c_uint;
}

/// A driver's pointer as the number that a handle carries.
pub(super) fn number<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

/// The pointer that a handle carries as a number, once a book has it.
pub(super) fn pointer<T>(number: u64) -> *mut T {
    ptr::with_exposed_provenance_mut(number as usize)
}
