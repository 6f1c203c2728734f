//! What a call and its caller owe each other, as the calls of [`Checked`] ask for it.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use super::Checked;
use super::books::{Books, Place};
use crate::driver::{Access, EventHandle, Result, StreamHandle};

impl Checked {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A caller's duty, before the call.
    #[track_caller]
    pub(super) fn expect(&self, holds: bool, rule: &str, what: fmt::Arguments<'_>) {
        assert!(holds || !self.strict, "{rule}: {what}");
    }

    /// The driver's duty: what ought to be refused is.
    #[track_caller]
    pub(super) fn refused<T>(&self, allowed: bool, result: &Result<T>, rule: &str, what: fmt::Arguments<'_>) {
        assert!(allowed || result.is_err(), "{rule}: the driver accepted {what}");
    }

    /// Both duties of a call on a stream.
    #[track_caller]
    pub(super) fn on_stream<T>(
        &self,
        books: &Books,
        stream: StreamHandle,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let live = books.is_stream(stream);
        self.expect(live, "R2", format_args!("{stream:?} is used and not live"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("{stream:?}, which is not live"));
        result
    }

    /// Both duties of issuing work, which may run at once, and so under no lock of this.
    #[track_caller]
    pub(super) fn issued(
        &self,
        stream: StreamHandle,
        name: &str,
        used: &[Access],
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let live = {
            let books = self.books();
            used.iter().for_each(|access| self.usable(&books, name, *access));
            books.is_stream(stream)
        };
        self.expect(live, "R2", format_args!("{stream:?} is used and not live"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("{stream:?}, which is not live"));
        result
    }

    /// Both duties of a call on an event.
    #[track_caller]
    pub(super) fn on_event<T>(
        &self,
        books: &Books,
        event: EventHandle,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let live = books.events.contains_key(&event);
        self.expect(live, "R2", format_args!("{event:?} is used and not live"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("{event:?}, which is not live"));
        result
    }

    /// Both duties of recording an event.
    #[track_caller]
    pub(super) fn record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut books = self.books();
        let same = event.device == stream.device;
        self.expect(same, "R3", format_args!("{event:?} is recorded on {stream:?}"));
        let result = self.on_event(&books, event, || self.on_stream(&books, stream, call));
        self.refused(same, &result, "R3", format_args!("the record of {event:?} on {stream:?}"));
        if result.is_ok() {
            books.recorded(event, stream);
        }
        result
    }

    /// Both duties of a call that ends something, which is known as `what`, with the words for it; then it is forgotten.
    #[track_caller]
    pub(super) fn ended(
        &self,
        live: impl FnOnce(&Books) -> bool,
        (what, verb, noun): (&dyn fmt::Debug, &str, &str),
        call: impl FnOnce() -> Result<()>,
        forget: impl FnOnce(&mut Books),
    ) -> Result<()> {
        let mut books = self.books();
        let live = live(&books);
        self.expect(live, "R2", format_args!("{what:?} is {verb} and not live"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("the {noun} of {what:?}, which is not live"));
        if result.is_ok() {
            forget(&mut books);
        }
        result
    }

    /// Both duties of a call that uses something of which it is known whether it is live.
    #[track_caller]
    pub(super) fn on_live<T>(
        &self,
        live: bool,
        what: &dyn fmt::Debug,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.expect(live, "R2", format_args!("{what:?} is used and not live"));
        let result = call();
        self.refused(live, &result, "R2", format_args!("{what:?}, which is not live"));
        result
    }

    /// A caller's duty: work uses memory that is there.
    #[track_caller]
    pub(super) fn usable(&self, books: &Books, name: &str, Access { ptr, bytes }: Access) {
        let usable = bytes == 0 || books.is_usable(ptr, bytes);
        let rule = if books.is_reserved(ptr, bytes) { "R8" } else { "R2" };
        self.expect(
            usable,
            rule,
            format_args!("{name} uses {bytes} bytes at {ptr}, which is not all usable"),
        );
    }

    /// Notes what is complete: an event that a call has found complete stays so until it is recorded again.
    pub(super) fn complete(books: &mut Books, event: EventHandle, then: Option<Place>) {
        let now = books.events.get(&event).copied().flatten();
        if let Some(place) = now.filter(|_| now == then) {
            books.completed(place);
        }
    }
}
