#![expect(unsafe_code, reason = "asks the driver about its devices")]
//! What a device is, how much memory it has left, and waiting for all of its work.

use std::ffi::{CStr, c_char, c_int};

use c10_core::DeviceIndex;

use super::abi::{CUdevice, attribute};
use super::driver::RealDriver;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{DeviceProps, MemoryInfo, Status};

/// An attribute of a device.
pub(super) fn attribute_of(symbols: &Symbols, device: CUdevice, which: c_int) -> Result<c_int, Status> {
    let mut value = 0;
    // SAFETY: there is room for one number, and the device is one that the driver gave.
    check(unsafe { (symbols.device_get_attribute)(&mut value, which, device) })?;
    Ok(value)
}

impl RealDriver {
    /// What the driver says of a device without a context.
    pub(super) fn props(&self, index: DeviceIndex) -> Result<DeviceProps, Status> {
        let device = self.device(index)?.ordinal;
        let symbols = &self.library.symbols;
        let number = |which| {
            let value = attribute_of(symbols, device, which)?;
            u32::try_from(value).map_err(|_| Status::InvalidValue)
        };
        Ok(DeviceProps {
            name: name_of(symbols, device)?,
            total_memory: total_memory(symbols, device)?,
            compute_capability: (
                number(attribute::COMPUTE_CAPABILITY_MAJOR)?,
                number(attribute::COMPUTE_CAPABILITY_MINOR)?,
            ),
            multi_processor_count: number(attribute::MULTIPROCESSOR_COUNT)?,
            warp_size: number(attribute::WARP_SIZE)?,
        })
    }

    pub(super) fn free_and_total(&self, index: DeviceIndex) -> Result<MemoryInfo, Status> {
        self.on(index, |symbols, _| {
            let (mut free, mut total) = (0, 0);
            // SAFETY: there is room for both numbers.
            check(unsafe { (symbols.mem_get_info)(&mut free, &mut total) })?;
            Ok(MemoryInfo { free: free as u64, total: total as u64 })
        })
    }

    pub(super) fn synchronize_device(&self, index: DeviceIndex) -> Result<(), Status> {
        // SAFETY: the function takes nothing.
        self.on(index, |symbols, _| check(unsafe { (symbols.ctx_synchronize)() }))
    }
}

fn total_memory(symbols: &Symbols, device: CUdevice) -> Result<u64, Status> {
    let mut bytes = 0;
    // SAFETY: there is room for one number, and the device is one that the driver gave.
    check(unsafe { (symbols.device_total_mem)(&mut bytes, device) })?;
    Ok(bytes as u64)
}

fn name_of(symbols: &Symbols, device: CUdevice) -> Result<String, Status> {
    let mut name = [0_u8; 256];
    let room = name.len() as c_int;
    // SAFETY: there is room for as many bytes as it says, and the device is one that the driver gave.
    check(unsafe { (symbols.device_get_name)(name.as_mut_ptr().cast::<c_char>(), room, device) })?;
    let text = CStr::from_bytes_until_nul(&name).map_err(|_| Status::InvalidValue)?;
    Ok(text.to_string_lossy().into_owned())
}
