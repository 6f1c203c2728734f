//! R8: ranges are mapped where they are reserved and free, and given up when nothing is mapped there.

use std::fmt;

use super::Checked;
use super::books::{Books, Mapped};
use crate::driver::{DevicePtr, PhysHandle, Result, VaRange};

impl Checked {
    /// Both duties of giving a range up.
    pub(super) fn range_freed(&self, range: VaRange, call: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut books = self.books();
        let live = books.is_range(range);
        let mapped = live && books.is_mapped_anywhere(range.base, range.bytes);
        self.expect(live, "R2", format_args!("{range:?} is freed and not live"));
        self.expect(!mapped, "R8", format_args!("{range:?} is freed and still mapped"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("the free of {range:?}, which is not live"));
        self.refused(!mapped, &result, "R8", format_args!("the free of {range:?}, which is still mapped"));
        if result.is_ok() {
            books.reservations.remove(&range.base.0);
        }
        result
    }

    /// Both duties of a mapping.
    pub(super) fn mapped(
        &self,
        at: DevicePtr,
        memory: PhysHandle,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut books = self.books();
        let live = books.physical.get(&memory).is_some_and(|p| p.handles > 0);
        let free = books.is_reserved(at, memory.bytes) && !books.is_mapped_anywhere(at, memory.bytes);
        self.expect(live, "R8", format_args!("{memory:?} is mapped and not live"));
        self.expect(
            free,
            "R8",
            format_args!("{memory:?} is mapped at {at}, which is no free reserved range"),
        );
        let result = call();
        self.refused(live && free, &result, "R8", format_args!("the mapping of {memory:?} at {at}"));
        if result.is_ok() {
            books.mappings.insert(at.0, Mapped { bytes: memory.bytes, memory, accessible: false });
            if let Some(physical) = books.physical.get_mut(&memory) {
                physical.maps += 1;
            }
        }
        result
    }

    /// Both duties of letting devices into mappings.
    pub(super) fn access_set(
        &self,
        at: DevicePtr,
        bytes: u64,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.on_mappings(
            (at, bytes),
            format_args!("access to {bytes} bytes at {at}, which are no whole mappings"),
            format_args!("access to {bytes} bytes at {at}, not whole mappings"),
            call,
            |books, base| {
                books.mappings.entry(base).and_modify(|mapping| mapping.accessible = true);
            },
        )
    }

    /// Both duties of the end of mappings.
    pub(super) fn unmapped(
        &self,
        at: DevicePtr,
        bytes: u64,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.on_mappings(
            (at, bytes),
            format_args!("{bytes} bytes at {at} are unmapped and are no whole mappings"),
            format_args!("the unmapping of {bytes} bytes at {at}, not mapped so"),
            call,
            Books::unmapped,
        )
    }

    /// Both duties of a call on whole mappings, with what is said of a range that is none; `note` is given each after a
    /// call that succeeded.
    fn on_mappings(
        &self,
        (at, bytes): (DevicePtr, u64),
        expected: fmt::Arguments<'_>,
        refused: fmt::Arguments<'_>,
        call: impl FnOnce() -> Result<()>,
        note: impl Fn(&mut Books, u64),
    ) -> Result<()> {
        let mut books = self.books();
        let covering = books.covering(at, bytes);
        let whole = covering.is_some();
        self.expect(whole, "R8", expected);
        let result = call();
        self.refused(whole, &result, "R8", refused);
        if result.is_ok() {
            covering.unwrap_or_default().into_iter().for_each(|base| note(&mut books, base));
        }
        result
    }
}
