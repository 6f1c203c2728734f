//! What a [`Runtime`] knows of its devices: properties, which can reach which, waiting for all of one.

use c10_core::DeviceIndex;

use crate::driver::{DeviceProps, MemoryInfo};
use crate::error::Result;
use crate::runtime::Runtime;
use crate::sync::{Mutex, OnceLock, lock};

/// What has been asked of the driver once, and does not change.
#[derive(Debug)]
pub(crate) struct DeviceFacts {
    count: usize,
    /// By device.
    properties: Vec<OnceLock<DeviceProps>>,
    /// By device and peer.
    peers: Mutex<Vec<Peer>>,
}

/// How one device reaches another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Unknown,
    Unreachable,
    Reachable,
    Enabled,
}

impl DeviceFacts {
    pub(crate) fn new(devices: DeviceIndex) -> Self {
        let count = usize::from(devices);
        Self {
            count,
            properties: (0..count).map(|_| OnceLock::new()).collect(),
            peers: Mutex::new(vec![Peer::Unknown; count * count]),
        }
    }
}

/// # Errors
/// All calls return [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such device, and
/// else what the driver reports.
impl Runtime {
    /// Waits until all work of a device is complete (`torch.cuda.synchronize`).
    ///
    /// # Errors
    /// [`ErrorKind::Capture`](crate::ErrorKind::Capture) where a stream of the device captures, which spoils the
    /// capture.
    pub fn synchronize(&self, device: DeviceIndex) -> Result<()> {
        self.check(device)?;
        self.ready()?;
        let waited = self.driver().device_synchronize(device);
        self.driver().settle();
        Ok(waited?)
    }

    /// A device's name, size and limits (`torch.cuda.get_device_properties`). The driver is asked once.
    pub fn device_properties(&self, device: DeviceIndex) -> Result<&DeviceProps> {
        self.check(device)?;
        let place = &self.facts().properties[usize::from(device)];
        if let Some(known) = place.get() {
            return Ok(known);
        }
        self.ready()?;
        let asked = self.driver().device_props(device)?;
        Ok(place.get_or_init(|| asked))
    }

    /// Free and total bytes of a device (`torch.cuda.mem_get_info`), with what the caching allocators hold counted
    /// as used.
    pub fn mem_get_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        self.check(device)?;
        self.ready()?;
        Ok(self.driver().memory_info(device)?)
    }

    /// Whether `device` can reach memory of `peer` (`torch.cuda.can_device_access_peer`); a device can reach its own.
    /// The driver is asked once.
    pub fn can_device_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        Ok(self.peer(device, peer, false)? != Peer::Unreachable)
    }

    /// Lets `device` reach memory of `peer`, if it can, and says whether it does (`get_p2p_access`). The driver is
    /// called once. Memory of expandable segments is opened to a device by
    /// [`CachingAllocator::enable_peer_access`](crate::CachingAllocator::enable_peer_access) besides.
    pub fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        Ok(self.peer(device, peer, true)? == Peer::Enabled)
    }

    fn peer(&self, device: DeviceIndex, peer: DeviceIndex, enable: bool) -> Result<Peer> {
        self.check(device)?;
        self.check(peer)?;
        if device == peer {
            return Ok(Peer::Enabled);
        }
        let at = usize::from(device) * self.facts().count + usize::from(peer);
        let mut peers = lock(&self.facts().peers);
        if peers[at] == Peer::Unknown {
            self.ready()?;
            let reaches = self.driver().can_access_peer(device, peer)?;
            peers[at] = if reaches { Peer::Reachable } else { Peer::Unreachable };
        }
        if enable && peers[at] == Peer::Reachable {
            self.ready()?;
            self.driver().enable_peer_access(device, peer)?;
            peers[at] = Peer::Enabled;
        }
        Ok(peers[at])
    }
}
