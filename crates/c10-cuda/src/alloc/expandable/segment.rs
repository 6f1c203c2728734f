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

use c10_core::DeviceIndex;

use crate::driver::{DevicePtr, Driver, DriverError, IpcHandle, PhysHandle, Status, StreamHandle, VaRange};

/// What stands behind a page's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Unmapped,
    Mapped(PhysHandle),
    /// See E3.
    Stuck(PhysHandle),
}

/// A range of addresses whose pages are mapped as needed.
#[derive(Debug)]
pub(crate) struct ExpandableSegment {
    /// The stream whose blocks it holds.
    stream: StreamHandle,
    range: VaRange,
    /// Bytes of a page.
    page: u64,
    /// Up to the last that is not unmapped.
    pages: Vec<Page>,
    /// Other devices that reach it.
    peers: Vec<DeviceIndex>,
}

/// What an unmapping has done: all it was to do, or less and an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmapped {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
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
        Ok(Self { stream, range, page, pages: Vec::new(), peers: peers.to_vec() })
    }

    /// The first address.
    pub(crate) fn base(&self) -> u64 {
        self.range.base.0
    }

    /// All addresses, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.range.bytes
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    /// Bytes of the pages that have memory behind them and are of use.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.pages.iter().filter(|page| matches!(page, Page::Mapped(_))).count() as u64 * self.page
    }

    /// Puts memory behind the pages that hold `[at, at + bytes)`, none of which has any; `at` begins a page. Gives
    /// the bytes of the pages.
    pub(crate) fn map(
        &mut self,
        driver: &dyn Driver,
        at: u64,
        bytes: u64,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<u64, DriverError> {
        debug_assert!((at - self.base()).is_multiple_of(self.page), "blocks with no memory begin at pages");
        let first = self.index(at);
        let end = first + bytes.div_ceil(self.page) as usize;
        if self.pages.len() < end {
            self.pages.resize(end, Page::Unmapped);
        }
        let done = self.map_pages(driver, first, end, unreleased);
        self.trim();
        done.map(|()| (end - first) as u64 * self.page)
    }

    fn map_pages(
        &mut self,
        driver: &dyn Driver,
        first: usize,
        end: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        for page in first..end {
            self.unstick(driver, page, unreleased)?;
        }
        let mut created = Vec::with_capacity(end - first);
        for _ in first..end {
            match driver.create(self.stream.device, self.page) {
                Ok(handle) => created.push(handle),
                Err(error) => {
                    created.into_iter().for_each(|handle| release(driver, handle, unreleased));
                    return Err(error);
                }
            }
        }
        self.adopt(driver, first, created, unreleased)
    }

    /// Puts handles, each of a page, behind the pages from `first` on.
    fn adopt(
        &mut self,
        driver: &dyn Driver,
        first: usize,
        handles: Vec<PhysHandle>,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        let mapped = self.map_all(driver, first, &handles);
        if mapped.is_err() {
            for (page, handle) in (first..).zip(handles) {
                match self.pages[page] {
                    Page::Unmapped => release(driver, handle, unreleased),
                    Page::Mapped(_) | Page::Stuck(_) => {
                        self.pages[page] = Page::Stuck(handle);
                        // A refusal leaves the page stuck. See E3.
                        let _ = self.unstick(driver, page, unreleased);
                    }
                }
            }
        }
        mapped
    }

    fn map_all(
        &mut self,
        driver: &dyn Driver,
        first: usize,
        handles: &[PhysHandle],
    ) -> Result<(), DriverError> {
        for (page, handle) in (first..).zip(handles) {
            driver.map(self.address(page), *handle)?;
            self.pages[page] = Page::Mapped(*handle);
        }
        let mut devices = vec![self.stream.device];
        devices.extend(&self.peers);
        driver.set_access(self.address(first), handles.len() as u64 * self.page, &devices)
    }

    /// The physical memory of another process's pages, at addresses of just their length.
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
        match segment.adopt(driver, 0, handles, unreleased) {
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
            Page::Mapped(handle) => driver.export_memory(*handle),
            _ => Err(DriverError::new("export_memory", Status::NotMapped, self.stream.device)),
        });
        Ok((self.address(first).0, handles.collect::<Result<_, _>>()?))
    }

    /// Takes the memory away from behind the pages that lie wholly in `[at, at + bytes)`, all of which have some and
    /// hold no block, once the segment's stream has done with it.
    pub(crate) fn unmap(
        &mut self,
        driver: &dyn Driver,
        at: u64,
        bytes: u64,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Unmapped {
        let first = (at - self.base()).div_ceil(self.page) as usize;
        let end = self.index(at + bytes);
        let start = self.address(first).0;
        if first >= end {
            return Unmapped { at, bytes: 0, error: None };
        }
        if let Err(error) = self.synchronize(driver) {
            return Unmapped { at: start, bytes: 0, error: Some(error) };
        }
        let mut error = None;
        let mut done = 0;
        for page in first..end {
            if let Err(failed) = self.unmap_page(driver, page, unreleased) {
                error = Some(failed);
                break;
            }
            done += self.page;
        }
        self.trim();
        Unmapped { at: start, bytes: done, error }
    }

    /// Waits for the segment's stream, on the device that it is of. Where the stream is gone, for all of the device.
    fn synchronize(&self, driver: &dyn Driver) -> Result<(), DriverError> {
        match driver.stream_synchronize(self.stream) {
            Err(DriverError { status: Status::InvalidHandle, .. }) => {
                driver.device_synchronize(self.stream.device)
            }
            done => done,
        }
    }

    fn unmap_page(
        &mut self,
        driver: &dyn Driver,
        page: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        let (Page::Mapped(handle) | Page::Stuck(handle)) = self.pages[page] else {
            unreachable!("a mapped block has memory behind it, and a stuck page was seen to be one");
        };
        // SAFETY: no block is there, events of other streams have passed, and the own stream was waited for; or
        // nobody has ever used the page.
        unsafe { driver.unmap(self.address(page), self.page) }?;
        self.pages[page] = Page::Unmapped;
        release(driver, handle, unreleased);
        Ok(())
    }

    fn unstick(
        &mut self,
        driver: &dyn Driver,
        page: usize,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<(), DriverError> {
        match self.pages[page] {
            Page::Stuck(_) => self.unmap_page(driver, page, unreleased),
            _ => Ok(()),
        }
    }

    /// Takes all memory away, of a segment that nobody has used. What the driver refuses is stuck. See E3.
    pub(crate) fn unmap_all(&mut self, driver: &dyn Driver, unreleased: &mut Vec<PhysHandle>) {
        for page in &mut self.pages {
            if let Page::Mapped(handle) = *page {
                *page = Page::Stuck(handle);
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
        for (page, _) in self.pages.iter().enumerate().filter(|(_, page)| matches!(page, Page::Mapped(_))) {
            driver.set_access(self.address(page), self.page, &[peer])?;
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

    fn address(&self, page: usize) -> DevicePtr {
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
