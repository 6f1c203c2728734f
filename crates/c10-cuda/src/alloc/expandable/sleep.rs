#![expect(unsafe_code, reason = "unmaps the pages of blocks whose owners have agreed to it")]
//! Segments whose memory is given back while their addresses, and the blocks there, stay.

use super::segment::{ExpandableSegment, Page, release};
use crate::driver::{DevicePtr, Driver, DriverError, PhysHandle};

/// Pages one behind the other: the first address, and the bytes.
pub(crate) type Row = (u64, u64);

impl ExpandableSegment {
    /// Gives the memory of all pages back. The rows of them, in order, and what the driver refused, if it did: the
    /// pages from there on keep their memory, and nobody may use it.
    ///
    /// # Safety
    /// No work uses the blocks there, nor will before the pages [wake](Self::wake).
    pub(crate) unsafe fn sleep(
        &mut self,
        driver: &dyn Driver,
        unreleased: &mut Vec<PhysHandle>,
    ) -> (Vec<Row>, Result<(), DriverError>) {
        let mut rows = Vec::new();
        for page in 0..self.pages.len() {
            let Page::Mapped(handle) = self.pages[page] else { continue };
            // SAFETY: the caller answers for the work.
            if let Err(error) = unsafe { driver.unmap(self.address(page), handle.bytes) } {
                return (rows, Err(error));
            }
            let behind = page + (handle.bytes / self.page) as usize;
            self.pages[page..behind].fill(Page::Asleep);
            release(driver, handle, unreleased);
            add_to_rows(&mut rows, self.address(page).0, handle.bytes);
        }
        (rows, Ok(()))
    }

    /// Makes all pages sleep again that have just woken and that nobody has used. What the driver refuses is stuck.
    pub(crate) fn doze(&mut self, driver: &dyn Driver, unreleased: &mut Vec<PhysHandle>) {
        for page in &mut self.pages {
            if let Page::Mapped(handle) = *page {
                *page = Page::Stuck(handle, true);
            }
        }
        // A refusal leaves pages stuck.
        let _ = self.settle(driver, unreleased);
    }

    /// How many pages sleep.
    pub(crate) fn asleep(&self) -> usize {
        (self.asleep_bytes() / self.page) as usize
    }

    /// Puts `handles`, one for each page that sleeps, behind these pages. Their rows, in order. After an error all sleep
    /// that did, and the handles are released.
    pub(crate) fn wake(
        &mut self,
        driver: &dyn Driver,
        handles: Vec<PhysHandle>,
        unreleased: &mut Vec<PhysHandle>,
    ) -> Result<Vec<Row>, DriverError> {
        let settled = self.settle(driver, unreleased);
        let sleeping: Vec<_> =
            (0..self.pages.len()).filter(|page| self.pages[*page] == Page::Asleep).collect();
        let woken = settled.and_then(|()| self.map_sleeping(driver, &sleeping, &handles));
        if woken.is_err() {
            for (page, handle) in sleeping.iter().zip(&handles) {
                if self.pages[*page] == Page::Mapped(*handle) {
                    self.pages[*page] = Page::Stuck(*handle, true);
                    // A refusal leaves the page stuck.
                    let _ = self.unstick(driver, *page, unreleased);
                } else {
                    release(driver, *handle, unreleased);
                }
            }
            // Pages that could not be settled have no place here.
            handles.into_iter().skip(sleeping.len()).for_each(|handle| release(driver, handle, unreleased));
        }
        woken
    }

    fn map_sleeping(
        &mut self,
        driver: &dyn Driver,
        sleeping: &[usize],
        handles: &[PhysHandle],
    ) -> Result<Vec<Row>, DriverError> {
        let mut rows = Vec::new();
        for (page, handle) in sleeping.iter().zip(handles) {
            driver.map(self.address(*page), *handle)?;
            self.pages[*page] = Page::Mapped(*handle);
            add_to_rows(&mut rows, self.address(*page).0, self.page);
        }
        let devices = self.devices();
        for (at, bytes) in &rows {
            driver.set_access(DevicePtr(*at), *bytes, &devices)?;
        }
        Ok(rows)
    }
}

fn add_to_rows(rows: &mut Vec<Row>, at: u64, bytes: u64) {
    match rows.last_mut() {
        Some((from, length)) if *from + *length == at => *length += bytes,
        _ => rows.push((at, bytes)),
    }
}
