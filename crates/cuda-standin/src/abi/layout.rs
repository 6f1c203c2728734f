//! The structs of CUDA's interface that are read or written here, with C's layout.

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemLocation {
    /// 1 is a device.
    pub(crate) kind: u32,
    pub(crate) id: i32,
}

impl MemLocation {
    pub(crate) const DEVICE: u32 = 1;

    pub(crate) const fn device(id: i32) -> Self {
        Self { kind: Self::DEVICE, id }
    }
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAllocationProp {
    /// 1 is memory that stays where it is.
    pub(crate) kind: u32,
    /// Bits of handle types; 1 is a file descriptor.
    pub(crate) handle_types: u32,
    pub(crate) location: MemLocation,
    pub(crate) win32_meta_data: u64,
    /// Compression, RDMA, usage.
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAccessDesc {
    pub(crate) location: MemLocation,
    /// 0 none, 1 read, 3 read and write.
    pub(crate) flags: u32,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfigC {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: super::Handle,
    pub(crate) attributes: u64,
    pub(crate) attribute_count: u32,
}

/// `CUipcMemHandle` and `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcBytes(pub(crate) [u8; 64]);

/// `CUuuid`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphUpdateInfo {
    /// 0 done, 2 another shape.
    pub(crate) result: u32,
    pub(crate) error_node: u64,
    pub(crate) error_from_node: u64,
}
