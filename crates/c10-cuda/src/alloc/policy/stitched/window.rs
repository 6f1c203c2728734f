#![expect(unsafe_code, reason = "unmaps windows where no block is, once their stream has done with them")]
//! [`Window`]: addresses behind which physical handles are mapped a second time; [`WindowTable`]: a device's windows.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use c10_core::DeviceIndex;

use super::PAGE;
use super::addresses::Addresses;
use super::growth::MOST_ADDRESSES;
use super::holes::{Holes, Piece};
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::expandable::wait_for;
use crate::alloc::ids::{BlockId, WindowId};
use crate::driver::{
    CaptureState, DevicePtr, Driver, DriverError, PhysHandle, Status, StreamHandle, VaRange,
};

/// Handles behind a range of addresses.
#[derive(Debug)]
pub(crate) struct Window {
    stream: StreamHandle,
    range: VaRange,
    /// In the order of their addresses here.
    backings: Vec<Backing>,
    /// The block that is there, and what is lent to it.
    block: Option<BlockId>,
    lent: Vec<BlockId>,
}

/// A handle, and where it is at home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backing {
    pub(super) at: u64,
    pub(super) handle: PhysHandle,
    is_mapped: bool,
}

/// The windows of a device.
#[derive(Debug, Default)]
pub(crate) struct WindowTable {
    by_id: BTreeMap<WindowId, Window>,
    /// Those that are whole, by where the handles are at home.
    by_handles: BTreeMap<Vec<u64>, WindowId>,
    made: u32,
    addresses: Addresses,
}

impl Window {
    /// Where the first piece of a block is: it ends where its handle does, or is all that the block has of it.
    pub(super) fn address_of(&self, first: Piece) -> u64 {
        self.range.base.0 + (first.at - self.backings[0].at)
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

    /// The blocks of the homes that are lent to it, in their order here.
    pub(crate) fn lent(&self) -> &[BlockId] {
        &self.lent
    }

    /// What is mapped, and where.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (DevicePtr, Backing)> {
        let mut next = self.range.base;
        self.backings.iter().filter_map(move |backing| {
            let here = next;
            next = here.offset(backing.handle.bytes);
            backing.is_mapped.then_some((here, *backing))
        })
    }

    fn map(&mut self, driver: &dyn Driver, devices: &[DeviceIndex]) -> Result<(), DriverError> {
        let mut at = self.range.base;
        for backing in &mut self.backings {
            driver.map(at, backing.handle)?;
            backing.is_mapped = true;
            at = at.offset(backing.handle.bytes);
        }
        driver.set_access(self.range.base, self.range.bytes, devices)
    }
}

impl WindowTable {
    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WindowId, &Window)> {
        self.by_id.iter().map(|(id, window)| (*id, window))
    }

    /// The window on just these handles. There is no block in it while what it maps is free.
    pub(super) fn find(&self, backings: &[Backing]) -> Option<WindowId> {
        self.by_handles.get(&key(backings)).copied()
    }

    /// Whether some window maps a handle whose home is in a range.
    pub(crate) fn map_within(&self, at: u64, end: u64) -> bool {
        let is_within = |backing: Backing| at <= backing.at && backing.at + backing.handle.bytes <= end;
        self.by_id.values().any(|window| window.mapped().any(|(_, backing)| is_within(backing)))
    }

    /// Lets another device reach what is mapped.
    pub(crate) fn add_peer(&self, driver: &dyn Driver, peer: DeviceIndex) -> Result<(), DriverError> {
        let mut mapped = self.by_id.values().flat_map(Window::mapped);
        mapped.try_for_each(|(at, backing)| driver.set_access(at, backing.handle.bytes, &[peer]))
    }
}

fn key(backings: &[Backing]) -> Vec<u64> {
    backings.iter().map(|backing| backing.at).collect()
}

impl DeviceState {
    /// The handles that a window on these pieces maps.
    pub(super) fn backings_of(&self, holes: &Holes, pieces: &[Piece]) -> Vec<Backing> {
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
}

impl Locked<'_> {
    /// A window on handles. `None` when there are no addresses for it, or the driver has no memory for its tables;
    /// then all is as before.
    pub(super) fn new_window(
        &mut self,
        request: &Request,
        backings: Vec<Backing>,
    ) -> Result<Option<WindowId>, Refused> {
        // 2^32 windows take years; then there are no more.
        let Some(id) = self.windows.made.checked_add(1).and_then(NonZeroU32::new).map(WindowId) else {
            return Ok(None);
        };
        let bytes = backings.iter().map(|backing| backing.handle.bytes).sum();
        let (device, stream) = (self.device, self.stream(request.stream));
        let range = match self.window_addresses(request.stream, bytes) {
            Ok(range) => range,
            Err(error) => return unless_memory(error),
        };
        let key = key(&backings);
        let mut window = Window { stream, range, backings, block: None, lent: Vec::new() };
        let mut devices = vec![device.index];
        devices.extend(&self.expandable.peers);
        let made = window.map(&*device.driver, &devices);
        self.windows.made += 1;
        self.windows.by_id.insert(id, window);
        match made {
            Ok(()) => {
                self.windows.by_handles.insert(key, id);
                Ok(Some(id))
            }
            Err(error) => {
                // Nobody has used it. What the driver would not unmap is tried again when windows are let go.
                let _ = self.unmap_window(id).and(self.free_addresses());
                unless_memory(error)
            }
        }
    }

    /// Addresses for a window, out of a range that has room for more of them.
    fn window_addresses(&mut self, stream: u64, bytes: u64) -> Result<VaRange, DriverError> {
        if let Some(range) = self.windows.addresses.take(bytes) {
            return Ok(range);
        }
        let shared = self.reserve_limit(stream)?.bytes.min(MOST_ADDRESSES).next_multiple_of(PAGE);
        let (driver, index) = (&self.device.driver, self.device.index);
        let reserved = driver.reserve(index, shared.max(bytes));
        let range = match reserved {
            // There may be addresses for this one window.
            Err(error) if error.status == Status::OutOfMemory && bytes < shared => {
                driver.reserve(index, bytes)
            }
            reserved => reserved,
        }?;
        self.windows.addresses.insert(range);
        Ok(self.windows.addresses.take(bytes).expect("the range has room for the window"))
    }

    /// Gives the ranges back that no window is in.
    fn free_addresses(&mut self) -> Result<(), DriverError> {
        let device = self.device;
        while let Some(range) = self.windows.addresses.unused() {
            // SAFETY: no window is there, and so nothing is mapped and no block is there.
            unsafe { device.driver.free_range(range) }?;
            self.windows.addresses.remove(range);
        }
        Ok(())
    }

    /// Unmaps all that no block is at, once the streams have done with it, and gives up the windows that have nothing
    /// mapped then. The first error, after all has been tried.
    pub(super) fn unmap_windows(&mut self) -> Result<(), DriverError> {
        let mut result = Ok(());
        let mut waited = Vec::new();
        for id in self.windows.by_id.keys().copied().collect::<Vec<_>>() {
            let stream = self.windows[id].stream;
            // One that captures cannot be waited for.
            if !self.device.is_quiet() && self.driver().capture_state(stream) != Ok(CaptureState::None) {
                continue;
            }
            if !waited.contains(&stream) {
                if let Err(error) = wait_for(self.driver(), stream) {
                    result = result.and(Err(error));
                    continue;
                }
                waited.push(stream);
            }
            result = result.and(self.unmap_window(id));
        }
        result.and(self.free_addresses())
    }

    fn unmap_window(&mut self, id: WindowId) -> Result<(), DriverError> {
        let device = self.device;
        let block = self.windows[id].block.map(|block| &self.blocks[block]);
        let (ptr, end) = block.map_or((0, 0), |block| (block.ptr, block.end()));
        let windows = &mut self.windows;
        let window = windows.by_id.get_mut(&id).expect("the caller has the window");
        let mut at = window.range.base;
        for backing in &mut window.backings {
            let (here, bytes) = (at, backing.handle.bytes);
            at = here.offset(bytes);
            if !backing.is_mapped || (here.0 < end && ptr < at.0) {
                continue;
            }
            windows.by_handles.retain(|_, whole| *whole != id);
            // SAFETY: no block is there, and the stream of those that were was waited for; or nobody has used it.
            unsafe { device.driver.unmap(here, bytes) }?;
            backing.is_mapped = false;
        }
        if window.backings.iter().all(|backing| !backing.is_mapped) {
            windows.addresses.leave(window.range);
            windows.by_id.remove(&id);
        }
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
        self.by_id.get(&id).expect("an id in use leads to a window")
    }
}

impl IndexMut<WindowId> for WindowTable {
    fn index_mut(&mut self, id: WindowId) -> &mut Window {
        self.by_id.get_mut(&id).expect("an id in use leads to a window")
    }
}
