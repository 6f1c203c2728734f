#![expect(unsafe_code, reason = "asks and tells the driver which device reaches which")]
//! Which device may reach which device's memory.

use c10_core::DeviceIndex;

use super::driver::RealDriver;
use super::status::{PEER_ACCESS_ALREADY_ENABLED, check};
use crate::driver::Status;

impl RealDriver {
    pub(super) fn reaches(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool, Status> {
        let (from, to) = (self.device(device)?.ordinal, self.device(peer)?.ordinal);
        if device == peer {
            // A device is no peer of its own.
            return Ok(false);
        }
        let mut can = 0;
        // SAFETY: there is room for one number, and both devices are such as the driver gave.
        check(unsafe { (self.library.symbols.device_can_access_peer)(&mut can, from, to) })?;
        Ok(can != 0)
    }

    pub(super) fn enable_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<(), Status> {
        self.device(device)?;
        let other = self.device(peer)?;
        if device == peer {
            return Err(Status::InvalidDevice);
        }
        self.on(device, |symbols, _| {
            let context = other.context(symbols)?;
            // SAFETY: the context is retained until the driver's value is dropped; there are no flags.
            match unsafe { (symbols.ctx_enable_peer_access)(context, 0) } {
                PEER_ACCESS_ALREADY_ENABLED => Ok(()),
                result => check(result),
            }
        })
    }
}
