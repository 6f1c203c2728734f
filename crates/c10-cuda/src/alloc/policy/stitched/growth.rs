//! Growth: pages of the driver for the home of a class.

use super::PAGE;
use super::class;
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::expandable::ExpandableSegment;
use crate::alloc::ids::{BlockId, PoolId};

/// The most addresses that a home takes, in bytes: 4 TiB, more than a device has.
const MOST_ADDRESSES: u64 = 1 << 42;

impl Locked<'_> {
    /// Puts memory into the home of a request's class, of which `missing` bytes would do if what is free elsewhere is
    /// used too. Whether there was some.
    pub(super) fn grow_home(&mut self, request: &Request, missing: u64) -> Result<bool, Refused> {
        let class = class::of(request.size);
        let request = Request { pool: PoolId { is_small: class == 0, ..request.pool }, ..*request };
        let unmapped = match self.room_at_home(&request, class) {
            Some(unmapped) => unmapped,
            None => match self.new_home(&request, class)? {
                Some(unmapped) => unmapped,
                None => return Ok(false),
            },
        };
        let plain = (request.size - self.free_before(unmapped).min(request.size)).div_ceil(PAGE);
        let missing = missing.div_ceil(PAGE);
        let wanted = class::growth(class, plain, missing);
        if self.map_pages(unmapped, wanted, &request)? {
            return Ok(true);
        }
        // There may be room for what is needed and no more.
        let needed = missing.min(plain);
        Ok(needed < wanted && self.map_pages(unmapped, needed, &request)?)
    }

    fn map_pages(&mut self, unmapped: BlockId, pages: u64, request: &Request) -> Result<bool, Refused> {
        let bytes = (pages * PAGE).min(self.blocks[unmapped].size);
        if !self.may_take(bytes, request)? {
            return Ok(false);
        }
        let run = class::handle_pages(request.size, pages, self.total_allocated);
        Ok(self.map_block(unmapped, bytes, run as usize)?)
    }

    /// Addresses for another home, as one unmapped block. `None` when those would be too few.
    fn new_home(&mut self, request: &Request, class: usize) -> Result<Option<BlockId>, Refused> {
        let bytes = self.reserve_limit(request.stream)?.bytes.min(MOST_ADDRESSES);
        if bytes < request.size {
            return Ok(None);
        }
        let stream = self.stream(request.stream);
        let home = ExpandableSegment::reserve(self.driver(), stream, PAGE, bytes, &self.expandable.peers)
            .map_err(|error| self.no_addresses(error, bytes))?;
        Ok(Some(self.insert_segment(home.of_class(class), request)))
    }
}

impl DeviceState {
    /// The unmapped block with the lowest address behind which, or with the free block before it, the request has
    /// room.
    fn room_at_home(&self, request: &Request, class: usize) -> Option<BlockId> {
        let mut unmapped = self.pools[request.pool].unmapped.of_stream(request.stream);
        unmapped.find(|id| {
            let is_of_class = self.expandable[self.blocks[*id].of_expandable()].class() == class;
            is_of_class && self.free_before(*id) + self.blocks[*id].size >= request.size
        })
    }

    /// Bytes of the free block before a block.
    fn free_before(&self, id: BlockId) -> u64 {
        let before = self.blocks[id].prev.map(|prev| &self.blocks[prev]);
        before.filter(|before| before.is_free() && before.mapped).map_or(0, |before| before.size)
    }
}
