#![expect(unsafe_code, reason = "unmaps pages and gives addresses back once no block is there")]
//! [`ExpandableSegment`]: a reserved range of addresses, and the physical memory behind its pages
//! (`ExpandableSegment`).
//!
//! - **E1.** A page is mapped, for the segment's device and its peers, or is as it was before it first was: a call
//!   that fails on the way takes back all that it did.
//! - **E2.** Each physical handle is released once. One that the driver would not take back is kept in the list of
//!   the caller, who offers it again.
//! - **E3.** A page that could not be unmapped on the way back is *stuck*: mapped, and of no use to anybody, until an
//!   unmapping succeeds.
//! - **E4.** A physical handle has one page, or where the caller says so several in a row, and comes and goes whole.
//! - **E5.** A page that sleeps counts as mapped to the blocks that lie in it, and has no memory until it wakes.

use std::ops::Range;

use c10_core::DeviceIndex;

use crate::driver::{DevicePtr, Driver, DriverError, IpcHandle, PhysHandle, Status, StreamHandle, VaRange};

/// What stands behind a page's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Unmapped,
    Mapped(PhysHandle),
    /// See E3; whether it sleeps once it is unmapped.
    Stuck(PhysHandle, bool),
    /// Blocks are there and their memory is not. See E5.
    Asleep,
    /// Memory of the handle that an earlier page names. See E4.
    Follows,
}

/// A range of addresses whose pages are mapped as needed.
#[derive(Debug)]
pub(crate) struct ExpandableSegment {
    /// The stream whose blocks it holds.
    stream: StreamHandle,
    range: VaRange,
    /// Bytes of a page.
    pub(super) page: u64,
    /// Up to the last that is not unmapped.
    pub(super) pages: Vec<Page>,
    /// Other devices that reach it.
    peers: Vec<DeviceIndex>,
    /// Which of the sizes of requests it serves, where a policy parts them.
    class: usize,
    /// The address up to which a policy uses what is mapped.
    pub(crate) opened: u64,
}

/// What an unmapping has done: all it was to do, or less and an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmapped {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Of these, what slept and so had no memory.
    pub(crate) asleep: u64,
    pub(crate) error: Option<DriverError>,
}

impl ExpandableSegment {
    /// Reserves addresses for at least `bytes` bytes, in whole pages.
    pub(crate) fn reserve(
        driver: &dyn Driver,
        stream: StreamHandle,
        page: u64,
        bytes: u64,
        peers: &[DeviceIndex],
    ) -> Result<Self, DriverError> {
        let too_many = || DriverError::new("reserve", Status::OutOfMemory, stream.device);
        let bytes = bytes.max(1).checked_next_multiple_of(page).ok_or_else(too_many)?;
        let range = driver.reserve(stream.device, bytes)?;
        Ok(Self { stream, range, page, pages: Vec::new(), peers: peers.to_vec(), class: 0, opened: u64::MAX })
    }

    /// The same for requests of a class.
    pub(crate) fn of_class(self, class: usize) -> Self {
        Self { class, ..self }
    }

    /// The class of requests that it serves.
    pub(crate) fn class(&self) -> usize {
        self.class
    }

    /// The first address.
    pub(crate) fn base(&self) -> u64 {
        self.range.base.0
    }

    /// The stream whose blocks it holds.
    pub(crate) fn stream(&self) -> StreamHandle {
        self.stream
    }

    /// All addresses, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.range.bytes
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    /// Bytes of the pages that have memory behind them and are of use, or sleep.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        let mapped = |page: &Page| if let Page::Mapped(handle) = page { handle.bytes } else { 0 };
        self.pages.iter().map(mapped).sum::<u64>() + self.asleep_bytes()
    }

    /// Bytes of the pages that sleep.
    pub(crate) fn asleep_bytes(&self) -> u64 {
        let asleep = |page: &Page| match page {
            Page::Asleep => self.page,
            Page::Stuck(handle, true) => handle.bytes,
            _ => 0,
        };
        self.pages.iter().map(asleep).sum()
    }

    /// Whether an address is one of its own.
    pub(crate) fn holds(&self, at: u64) -> bool {
        at.checked_sub(self.base()).is_some_and(|offset| offset < self.bytes())
    }

    /// The memory behind a mapped address, and where it begins.
    pub(crate) fn handle_at(&self, at: u64) -> (u64, PhysHandle) {
        let head = self.head(self.index(at));
        let Page::Mapped(handle) = self.pages[head] else { unreachable!("the address is mapped") };
        (self.address(head).0, handle)
    }

    // Differs from PyTorch: a failure on the way is undone whole (pytorch/pytorch#188008).
    /// Puts memory behind the pages that hold `[at, at + bytes)`, none of which has any; `at` begins a page. Each
    /// physical handle gets at most `run` pages. Gives the bytes of the pages.
    pub(crate) fn map(
        &mut self,
        driver: &dyn Driver,
        at: u64,
        bytes: u64,
        run: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<u64, DriverError> {
        debug_assert!((at - self.base()).is_multiple_of(self.page), "blocks with no memory begin at pages");
        let first = self.index(at);
        let end = first + bytes.div_ceil(self.page) as usize;
        if self.pages.len() < end {
            self.pages.resize(end, Page::Unmapped);
        }
        let done = self.map_pages(driver, first..end, run, unreleased);
        self.trim();
        done.map(|()| (end - first) as u64 * self.page)
    }

    fn map_pages(
        &mut self,
        driver: &dyn Driver,
        pages: Range<usize>,
        run: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        for page in pages.clone() {
            self.unstick(driver, page, unreleased)?;
        }
        let mut created = Vec::with_capacity(pages.len());
        for first in pages.clone().step_by(run) {
            let bytes = run.min(pages.end - first) as u64 * self.page;
            match driver.create(self.stream.device, bytes) {
                Ok(handle) => created.push((first, handle)),
                Err(error) => {
                    created.into_iter().for_each(|(_, handle)| release(driver, handle, unreleased));
                    return Err(error);
                }
            }
        }
        self.adopt(driver, pages, created, unreleased)
    }

    /// Puts handles behind pages, each from its first page on.
    fn adopt(
        &mut self,
        driver: &dyn Driver,
        pages: Range<usize>,
        handles: Vec<(usize, PhysHandle)>,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        let mapped = self.map_all(driver, &pages, &handles);
        if mapped.is_err() {
            for (page, handle) in handles {
                match self.pages[page] {
                    Page::Mapped(_) => {
                        self.pages[page] = Page::Stuck(handle, false);
                        // A refusal leaves the page stuck. See E3.
                        let _ = self.unstick(driver, page, unreleased);
                    }
                    _ => release(driver, handle, unreleased),
                }
            }
        }
        mapped
    }

    fn map_all(
        &mut self,
        driver: &dyn Driver,
        pages: &Range<usize>,
        created: &[(usize, PhysHandle)],
    ) -> Result<(), DriverError> {
        for &(page, handle) in created {
            driver.map(self.address(page), handle)?;
            let behind = page + (handle.bytes / self.page) as usize;
            self.pages[page..behind].fill(Page::Follows);
            self.pages[page] = Page::Mapped(handle);
        }
        driver.set_access(self.address(pages.start), pages.len() as u64 * self.page, &self.devices())
    }

    /// The devices that reach it.
    pub(super) fn devices(&self) -> Vec<DeviceIndex> {
        [&[self.stream.device], &self.peers[..]].concat()
    }

    /// The physical memory of another process's pages, at addresses of just their length.
    // Differs from PyTorch: it reserves a device's worth of addresses for each (pytorch/pytorch#186213).
    pub(crate) fn import(
        driver: &dyn Driver,
        device: DeviceIndex,
        page: u64,
        pages: &[IpcHandle],
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<Self, DriverError> {
        let mut handles = Vec::with_capacity(pages.len());
        let imported = pages.iter().try_for_each(|page| {
            handles.push(driver.import_memory(device, page)?);
            Ok(())
        });
        let bytes = page.saturating_mul(pages.len() as u64);
        let stream = StreamHandle::default_of(device);
        let reserved = imported.and_then(|()| {
            if handles.iter().any(|handle| handle.bytes != page) {
                return Err(DriverError::new("import_memory", Status::InvalidValue, device));
            }
            Self::reserve(driver, stream, page, bytes, &[])
        });
        let mut segment = match reserved {
            Ok(segment) => segment,
            Err(error) => {
                handles.into_iter().for_each(|handle| release(driver, handle, unreleased));
                return Err(error);
            }
        };
        segment.pages.resize(handles.len(), Page::Unmapped);
        let count = handles.len();
        match segment.adopt(driver, 0..count, (0..).zip(handles).collect(), unreleased) {
            Ok(()) => Ok(segment),
            Err(error) => {
                // A refusal leaves addresses behind, which nobody can be told of.
                let _ = segment.free(driver, unreleased);
                Err(error)
            }
        }
    }

    /// Makes the pages that hold `[at, at + bytes)`, which are mapped, known to other processes. Gives where the first
    /// of them begins.
    pub(crate) fn export(
        &self,
        driver: &dyn Driver,
        at: u64,
        bytes: u64,
    ) -> Result<(u64, Vec<IpcHandle>), DriverError> {
        let first = self.index(at);
        let end = (at + bytes - self.base()).div_ceil(self.page) as usize;
        let handles = self.pages[first..end].iter().map(|page| match page {
            Page::Mapped(handle) if handle.bytes == self.page => driver.export_memory(*handle),
            // Several pages of one handle would need another format.
            Page::Mapped(_) | Page::Follows => {
                Err(DriverError::new("export_memory", Status::NotSupported, self.stream.device))
            }
            _ => Err(DriverError::new("export_memory", Status::NotMapped, self.stream.device)),
        });
        Ok((self.address(first).0, handles.collect::<Result<_, _>>()?))
    }

    /// Takes the handles away whose pages lie wholly in `[at, at + bytes)`, all of which have memory and hold no block,
    /// once the segment's stream has done with it.
    pub(crate) fn unmap(
        &mut self,
        driver: &dyn Driver,
        at: u64,
        bytes: u64,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Unmapped {
        let mut first = (at - self.base()).div_ceil(self.page) as usize;
        while self.pages.get(first) == Some(&Page::Follows) {
            first += 1;
        }
        let end = self.index(at + bytes);
        let end = if self.pages.get(end) == Some(&Page::Follows) { self.head(end) } else { end };
        let start = self.address(first).0;
        let mut unmapped = Unmapped { at: start, bytes: 0, asleep: 0, error: None };
        if first >= end {
            return unmapped;
        }
        let all_sleep = self.pages[first..end].iter().all(|page| *page == Page::Asleep);
        if !all_sleep && let Err(error) = wait_for(driver, self.stream) {
            return Unmapped { error: Some(error), ..unmapped };
        }
        while start + unmapped.bytes < self.address(end).0 {
            let page = self.index(start + unmapped.bytes);
            let sleeps = matches!(self.pages[page], Page::Asleep | Page::Stuck(_, true));
            match self.unmap_handle(driver, page, unreleased) {
                Ok(bytes) => {
                    let behind = page + (bytes / self.page) as usize;
                    self.pages[page..behind].fill(Page::Unmapped);
                    unmapped.bytes += bytes;
                    unmapped.asleep += if sleeps { bytes } else { 0 };
                }
                Err(failed) => {
                    unmapped.error = Some(failed);
                    break;
                }
            }
        }
        self.trim();
        unmapped
    }

    /// Takes the handle away that begins at a page; gives its bytes.
    fn unmap_handle(
        &mut self,
        driver: &dyn Driver,
        page: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<u64, DriverError> {
        let (handle, then) = match self.pages[page] {
            Page::Mapped(handle) | Page::Stuck(handle, false) => (handle, Page::Unmapped),
            Page::Stuck(handle, true) => (handle, Page::Asleep),
            Page::Asleep | Page::Unmapped | Page::Follows => return Ok(self.page),
        };
        // SAFETY: no block is there, events of other streams have passed, and the own stream was waited for; or
        // nobody has ever used the page.
        unsafe { driver.unmap(self.address(page), handle.bytes) }?;
        let behind = page + (handle.bytes / self.page) as usize;
        self.pages[page..behind].fill(then);
        release(driver, handle, unreleased);
        Ok(handle.bytes)
    }

    pub(super) fn unstick(
        &mut self,
        driver: &dyn Driver,
        page: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        // The pages that follow a stuck one are stuck with it.
        let head = if self.pages[page] == Page::Follows { self.head(page) } else { page };
        match self.pages[head] {
            Page::Stuck(..) => self.unmap_handle(driver, head, unreleased).map(drop),
            _ => Ok(()),
        }
    }

    /// Takes all memory away, of a segment that nobody has used. What the driver refuses is stuck. See E3.
    pub(crate) fn unmap_all(&mut self, driver: &dyn Driver, unreleased: &mut Vec<PhysHandle>) {
        for page in &mut self.pages {
            match *page {
                Page::Mapped(handle) | Page::Stuck(handle, _) => *page = Page::Stuck(handle, false),
                Page::Asleep => *page = Page::Unmapped,
                Page::Unmapped | Page::Follows => {}
            }
        }
        // A refusal leaves pages stuck.
        let _ = self.settle(driver, unreleased);
    }

    /// Unmaps what could not be unmapped on the way back. See E3.
    pub(crate) fn settle(
        &mut self,
        driver: &dyn Driver,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        let settled = (0..self.pages.len()).try_for_each(|page| self.unstick(driver, page, unreleased));
        self.trim();
        settled
    }

    /// Lets another device reach what is mapped, and what will be.
    pub(crate) fn add_peer(&mut self, driver: &dyn Driver, peer: DeviceIndex) -> Result<(), DriverError> {
        if self.peers.contains(&peer) {
            return Ok(());
        }
        for (page, mapped) in self.pages.iter().enumerate() {
            if let Page::Mapped(handle) = mapped {
                driver.set_access(self.address(page), handle.bytes, &[peer])?;
            }
        }
        self.peers.push(peer);
        Ok(())
    }

    /// Gives the addresses back. Nothing is mapped and no block is there. After a failure it can be called again.
    pub(crate) fn free(
        &mut self,
        driver: &dyn Driver,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        self.settle(driver, unreleased)?;
        debug_assert!(self.pages.is_empty(), "nothing is mapped");
        // SAFETY: the pages have no memory behind them, and no block is at their addresses.
        unsafe { driver.free_range(self.range) }
    }

    /// The page that an address lies in.
    fn index(&self, at: u64) -> usize {
        ((at - self.base()) / self.page) as usize
    }

    /// The page where the handle of a page begins.
    fn head(&self, page: usize) -> usize {
        let named = self.pages[..=page].iter().rposition(|page| *page != Page::Follows);
        named.expect("an earlier page names the handle")
    }

    pub(super) fn address(&self, page: usize) -> DevicePtr {
        self.range.base.offset(page as u64 * self.page)
    }

    fn trim(&mut self) {
        let used = self.pages.iter().rposition(|page| *page != Page::Unmapped).map_or(0, |last| last + 1);
        self.pages.truncate(used);
    }
}

/// Gives physical memory back; what the driver refuses is kept. See E2.
pub(crate) fn release(driver: &dyn Driver, handle: PhysHandle, unreleased: &mut Vec<PhysHandle>) {
    if driver.release(handle).is_err() {
        unreleased.push(handle);
    }
}

/// Waits for a stream, on the device that it is of. Where the stream is gone, for all of the device.
// Differs from PyTorch: it waits on the current device (pytorch/pytorch#196258).
pub(crate) fn wait_for(driver: &dyn Driver, stream: StreamHandle) -> Result<(), DriverError> {
    match driver.stream_synchronize(stream) {
        Err(DriverError { status: Status::InvalidHandle, .. }) => driver.device_synchronize(stream.device),
        done => done,
    }
}
