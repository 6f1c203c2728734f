//! Which device may reach which device's memory.

use c10_core::DeviceIndex;

use super::state::State;
use crate::driver::Status;

impl State {
    pub(super) fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool, Status> {
        self.device(device)?;
        self.device(peer)?;
        // A device is no peer of its own.
        Ok(self.peers_possible && device != peer)
    }

    pub(super) fn enable_peer_access(
        &mut self,
        device: DeviceIndex,
        peer: DeviceIndex,
    ) -> Result<(), Status> {
        if !self.can_access_peer(device, peer)? {
            return Err(if device == peer { Status::InvalidDevice } else { Status::PeerAccessUnsupported });
        }
        self.device_mut(device)?.peers |= 1 << peer;
        Ok(())
    }
}
