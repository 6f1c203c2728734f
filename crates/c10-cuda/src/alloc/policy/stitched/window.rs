#![expect(unsafe_code, reason = "unmaps windows where no block is, once their stream has done with them")]
//! [`Window`]: addresses behind which physical handles are mapped a second time; [`WindowTable`]: a device's windows.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use c10_core::DeviceIndex;

use super::holes::{Holes, Piece};
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::device::Locked;
use crate::alloc::expandable::wait_for;
use crate::alloc::ids::{BlockId, WindowId};
use crate::driver::{DevicePtr, Driver, DriverError, PhysHandle, Status, StreamHandle, VaRange};

/// Handles behind a range of addresses.
#[derive(Debug)]
pub(crate) struct Window {
    stream: StreamHandle,
    range: VaRange,
    /// In the order of their addresses here.
    backings: Vec<Backing>,
    /// Whether devices may use what is mapped: else its making has failed.
    is_whole: bool,
    /// The block that is there, and what is lent to it.
    block: Option<BlockId>,
    lent: Vec<BlockId>,
}

/// A handle, and where it is at home.
#[derive(Clone, Copy, Debug)]
struct Backing {
    at: u64,
    handle: PhysHandle,
    is_mapped: bool,
}

/// A place in a window whose memory is free.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) pieces: Vec<Piece>,
}

/// Windows by age.
#[derive(Debug, Default)]
pub(crate) struct WindowTable {
    by_age: BTreeMap<WindowId, Window>,
    made: u32,
}

impl Window {
    pub(super) fn base(&self) -> u64 {
        self.range.base.0
    }

    /// Where an address of the home is, counted from the window's first.
    pub(super) fn offset_of(&self, at: u64) -> u64 {
        let holds = |backing: &Backing| backing.at <= at && at < backing.at + backing.handle.bytes;
        let index = self.backings.iter().position(holds).expect("the window maps the piece's handle");
        let before: u64 = self.backings[..index].iter().map(|backing| backing.handle.bytes).sum();
        before + (at - self.backings[index].at)
    }

    pub(super) fn occupy(&mut self, block: BlockId, lent: Vec<BlockId>) {
        self.block = Some(block);
        self.lent = lent;
    }

    pub(super) fn vacate(&mut self) -> Vec<BlockId> {
        self.block = None;
        std::mem::take(&mut self.lent)
    }

    /// The block that is there.
    pub(crate) fn block(&self) -> Option<BlockId> {
        self.block
    }

    /// The blocks of the homes that are lent to it.
    pub(crate) fn lent(&self) -> &[BlockId] {
        &self.lent
    }

    /// Whether the memory behind the addresses from `ptr` on is these ranges of the homes, one behind the other.
    pub(crate) fn is_backed_by(&self, mut lent: impl Iterator<Item = (u64, u64)>, ptr: u64) -> bool {
        let mut offset = ptr - self.base();
        lent.all(|(at, bytes)| {
            let is_there = self.row_at(offset, bytes) == Some(at);
            offset += bytes;
            is_there
        })
    }

    /// Where at home the bytes are that begin at an offset, if they are mapped and in one row there.
    fn row_at(&self, offset: u64, bytes: u64) -> Option<u64> {
        let (mut start, mut row) = (0, None);
        for backing in &self.backings {
            let end = start + backing.handle.bytes;
            if offset < end && start < offset + bytes {
                let at = backing.at + offset.saturating_sub(start);
                let begins = row.unwrap_or(at);
                if !backing.is_mapped || at != begins + start.saturating_sub(offset) {
                    return None;
                }
                row = Some(begins);
            }
            start = end;
        }
        row
    }

    /// The first row of bytes that are free at home.
    fn first_fit(&self, size: u64, holes: &Holes) -> Option<Place> {
        let bytes: u64 = self.backings.iter().map(|backing| backing.handle.bytes).sum();
        if !self.is_whole || self.block.is_some() || bytes < size {
            return None;
        }
        let (mut place, mut found, mut passed) = (Place { offset: 0, pieces: Vec::new() }, 0, 0);
        for backing in &self.backings {
            let end = backing.at + backing.handle.bytes;
            let mut at = backing.at;
            while at < end {
                match holes.free_from(at, end) {
                    Ok(to) if backing.is_mapped => {
                        if place.pieces.is_empty() {
                            place.offset = passed + (at - backing.at);
                        }
                        let bytes = (to - at).min(size - found);
                        place.pieces.push(Piece { at, bytes });
                        found += bytes;
                        at = to;
                        if found == size {
                            return Some(place);
                        }
                    }
                    blocked => {
                        place.pieces.clear();
                        found = 0;
                        at = blocked.err().flatten().unwrap_or(end);
                    }
                }
            }
            passed += backing.handle.bytes;
        }
        None
    }
}

impl WindowTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WindowId, &Window)> {
        self.by_age.iter().map(|(id, window)| (*id, window))
    }

    /// The oldest on a stream that has room for the request.
    pub(super) fn first_fit(&self, request: &Request, holes: &Holes) -> Option<(WindowId, Place)> {
        let of_stream = self.iter().filter(|(_, window)| window.stream.raw == request.stream);
        let mut fitting =
            of_stream.filter_map(|(id, window)| Some((id, window.first_fit(request.size, holes)?)));
        fitting.next()
    }

    /// Lets another device reach what is mapped.
    pub(crate) fn add_peer(&self, driver: &dyn Driver, peer: DeviceIndex) -> Result<(), DriverError> {
        self.by_age.values().filter(|window| window.is_whole).try_for_each(|window| {
            window.mapped().try_for_each(|(at, bytes, _)| driver.set_access(at, bytes, &[peer]))
        })
    }
}

impl Window {
    /// What is mapped: where, how many bytes, which of the backings.
    fn mapped(&self) -> impl Iterator<Item = (DevicePtr, u64, usize)> {
        let mut at = self.range.base;
        self.backings.iter().enumerate().filter_map(move |(index, backing)| {
            let here = at;
            at = at.offset(backing.handle.bytes);
            backing.is_mapped.then_some((here, backing.handle.bytes, index))
        })
    }
}

impl Locked<'_> {
    /// A window on the handles of the pieces. `None` when there are no addresses, or the driver has no memory for its
    /// tables.
    pub(super) fn new_window(
        &mut self,
        request: &Request,
        pieces: &[Piece],
    ) -> Result<Option<WindowId>, Refused> {
        // 2^32 windows take years; then there are no more.
        let Some(id) = self.windows.made.checked_add(1).and_then(NonZeroU32::new).map(WindowId) else {
            return Ok(None);
        };
        let backings = self.backings_of(request.stream, pieces);
        let bytes = backings.iter().map(|backing| backing.handle.bytes).sum();
        let (device, stream) = (self.device, self.stream(request.stream));
        let range = match device.driver.reserve(device.index, bytes) {
            Ok(range) => range,
            Err(error) => return unless_memory(error),
        };
        let mut window = Window { stream, range, backings, is_whole: false, block: None, lent: Vec::new() };
        let mut devices = vec![device.index];
        devices.extend(&self.expandable.peers);
        let made = window.map(&*device.driver, &devices);
        self.windows.made += 1;
        self.windows.by_age.insert(id, window);
        match made {
            Ok(()) => Ok(Some(id)),
            Err(error) => {
                // Nobody has used it. What the driver would not unmap is tried again when windows are let go.
                let _ = self.unmap_window(id);
                unless_memory(error)
            }
        }
    }

    fn backings_of(&self, stream: u64, pieces: &[Piece]) -> Vec<Backing> {
        let holes = Holes::of(self, stream);
        let mut backings = Vec::new();
        for piece in pieces {
            let segment = &self.expandable[self.blocks[holes.block_at(piece.at)].of_expandable()];
            let mut at = piece.at;
            while at < piece.at + piece.bytes {
                let (start, handle) = segment.handle_at(at);
                backings.push(Backing { at: start, handle, is_mapped: false });
                at = start + handle.bytes;
            }
        }
        backings
    }

    /// Unmaps all that no block is at, once the streams have done with it, and gives up the windows that have nothing
    /// mapped then. The first error, after all has been tried.
    pub(super) fn unmap_windows(&mut self) -> Result<(), DriverError> {
        let mut result = Ok(());
        let mut waited = Vec::new();
        for id in self.windows.by_age.keys().copied().collect::<Vec<_>>() {
            let stream = self.windows[id].stream;
            if !waited.contains(&stream) {
                if let Err(error) = wait_for(self.driver(), stream) {
                    result = result.and(Err(error));
                    continue;
                }
                waited.push(stream);
            }
            result = result.and(self.unmap_window(id));
        }
        result
    }

    fn unmap_window(&mut self, id: WindowId) -> Result<(), DriverError> {
        let device = self.device;
        let block =
            self.windows[id].block.map(|block| &self.blocks[block]).map(|block| (block.ptr, block.end()));
        let window = &mut self.windows[id];
        let is_idle = |at: u64, bytes: u64| block.is_none_or(|(ptr, end)| at + bytes <= ptr || end <= at);
        let idle: Vec<_> = window.mapped().filter(|(at, bytes, _)| is_idle(at.0, *bytes)).collect();
        for (at, bytes, index) in idle {
            // SAFETY: no block is there, and the stream of those that were was waited for; or nobody has used it.
            unsafe { device.driver.unmap(at, bytes) }?;
            window.backings[index].is_mapped = false;
        }
        if window.mapped().next().is_none() {
            // SAFETY: nothing is mapped there, and so no block is there.
            unsafe { device.driver.free_range(window.range) }?;
            self.windows.by_age.remove(&id);
        }
        Ok(())
    }
}

impl Window {
    fn map(&mut self, driver: &dyn Driver, devices: &[DeviceIndex]) -> Result<(), DriverError> {
        let mut at = self.range.base;
        for backing in &mut self.backings {
            driver.map(at, backing.handle)?;
            backing.is_mapped = true;
            at = at.offset(backing.handle.bytes);
        }
        driver.set_access(self.range.base, self.range.bytes, devices)?;
        self.is_whole = true;
        Ok(())
    }
}

/// No window for want of memory; any other error as it is.
fn unless_memory<T>(error: DriverError) -> Result<Option<T>, Refused> {
    if error.status == Status::OutOfMemory { Ok(None) } else { Err(error.into()) }
}

impl Index<WindowId> for WindowTable {
    type Output = Window;

    fn index(&self, id: WindowId) -> &Window {
        self.by_age.get(&id).expect("an id in use leads to a window")
    }
}

impl IndexMut<WindowId> for WindowTable {
    fn index_mut(&mut self, id: WindowId) -> &mut Window {
        self.by_age.get_mut(&id).expect("an id in use leads to a window")
    }
}
