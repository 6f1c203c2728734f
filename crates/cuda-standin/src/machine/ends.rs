//! The ends of copies: an address says by itself whether it is of the host or of a device.

use c10_cuda::driver::{CopyEnd, DevicePtr};

/// The simulator's addresses begin here, where no process has memory.
const FIRST_DEVICE_ADDRESS: u64 = 1 << 52;

pub(crate) const fn is_device_address(address: u64) -> bool {
    address >= FIRST_DEVICE_ADDRESS
}

/// What an address that the program passed stands for.
pub(super) fn end(address: u64) -> CopyEnd {
    if is_device_address(address) {
        CopyEnd::Device(DevicePtr(address))
    } else {
        CopyEnd::Host(std::ptr::with_exposed_provenance_mut(address as usize))
    }
}
