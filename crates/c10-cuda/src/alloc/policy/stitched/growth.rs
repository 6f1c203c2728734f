//! Growth: pages of the driver for the home of a class.

use super::PAGE;
use super::class;
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::expandable::ExpandableSegment;
use crate::alloc::ids::{BlockId, PoolId};

/// The most addresses that a home takes, or windows together, in bytes: 4 TiB, more than a device has.
pub(super) const MOST_ADDRESSES: u64 = 1 << 42;

impl Locked<'_> {
    /// Opens memory of the home of a request's class, or puts some into it, of which `missing` bytes would do if what
    /// is free elsewhere is used too. Whether there was some.
    pub(super) fn grow_home(&mut self, request: &Request, missing: u64) -> Result<bool, Refused> {
        let class = class::of(request.size);
        let request = Request { pool: PoolId { is_small: class == 0, ..request.pool }, ..*request };
        let missing = missing.div_ceil(PAGE);
        if self.open_home(&request, class, missing) || self.open_all(request.stream) {
            return Ok(true);
        }
        let unmapped = match self.room_at_home(&request, class) {
            Some(unmapped) => unmapped,
            None => match self.new_home(&request, class)? {
                Some(unmapped) => unmapped,
                None => return Ok(false),
            },
        };
        let plain = plain(&request, self.free_before(unmapped));
        let home = &self.expandable[self.blocks[unmapped].of_expandable()];
        let is_new = self.blocks[unmapped].ptr == home.base();
        let wanted = class::growth(class, is_new, plain, missing);
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
        let run = class::handle_pages(pages);
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
    /// Opens as much of a home as it would grow by, if there is that much. See Note [Homes begin anew].
    fn open_home(&mut self, request: &Request, class: usize, missing: u64) -> bool {
        let free = self.pools[request.pool].free.smaller(&self.blocks, request.stream, u64::MAX);
        let mut free = free.filter(|id| self.class_of(*id) == class);
        let Some(last) = free.find(|id| self.open_bytes(*id) < self.blocks[*id].size) else { return false };
        let (end, home) = (self.blocks[last].end(), self.blocks[last].of_expandable());
        let opened = self.expandable[home].opened;
        let is_new = opened == self.expandable[home].base();
        let wanted = class::growth(class, is_new, plain(request, self.open_bytes(last)), missing);
        let opened = opened + wanted * PAGE;
        if opened > end {
            return false;
        }
        self.expandable[home].opened = if opened == end { u64::MAX } else { opened };
        true
    }

    /// Opens all that is mapped for a stream. Whether there was anything to open.
    fn open_all(&mut self, stream: u64) -> bool {
        let homes = self.expandable.iter_mut().filter(|home| home.stream().raw == stream);
        let closed = homes.filter(|home| home.opened != u64::MAX);
        closed.map(|home| home.opened = u64::MAX).count() > 0
    }

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
        let before = self.blocks.prev_of(&self.blocks[id]);
        before.filter(|(_, before)| before.is_cached()).map_or(0, |(_, before)| before.size)
    }
}

/// How many pages a request needs behind so many free bytes.
fn plain(request: &Request, before: u64) -> u64 {
    request.size.saturating_sub(before).div_ceil(PAGE)
}
