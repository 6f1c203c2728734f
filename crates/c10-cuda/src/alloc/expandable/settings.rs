//! What can be said of expandable segments at run time: which devices reach them, which streams take how many
//! addresses.

use c10_core::{DeviceIndex, Stream};

use crate::alloc::CachingAllocator;
use crate::error::Result;

impl CachingAllocator {
    /// Lets `device` reach the memory of `peer`, expandable segments that are there and those to come among it
    /// (`enablePeerAccess`). Again is no error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such device; what the
    /// driver reports. What was reachable stays so.
    pub fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        self.device(device)?;
        let owner = self.device(peer)?;
        owner.driver.enable_peer_access(device, peer)?;
        let mut locked = owner.lock();
        for segment in locked.expandable.iter_mut() {
            segment.add_peer(&*owner.driver, device)?;
        }
        locked.windows.add_peer(&*owner.driver, device)?;
        if !locked.expandable.peers.contains(&device) {
            locked.expandable.peers.push(device);
        }
        Ok(())
    }

    /// Puts a stream in a class of `expandable_segments_reserve_by_class`, or in none where `class` is empty, for the
    /// segments that it gets from here on (`setExpandableSegmentReserveClassForStream`). A stream of the runtime's
    /// pool has other users, for whom that holds too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it is no stream of the runtime.
    pub fn set_expandable_reserve_class(&self, stream: Stream, class: &str) -> Result<()> {
        let stream = self.runtime().handle(stream)?;
        self.device(stream.device)?.lock().expandable.set_reserve_class(stream.raw, class);
        Ok(())
    }
}
