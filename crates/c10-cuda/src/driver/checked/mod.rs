//! [`Checked`]: any driver, with its rules asserted. A tool for finding faults: it panics where a rule is broken,
//! with the rule's number.

mod books;
mod captures;
mod duties;
mod forward;
mod mapping;

use std::fmt;
use std::sync::{Arc, Mutex};

use self::books::Books;
use super::Driver;

/// A driver whose calls are checked against the rules that [`driver`](super) states.
///
/// It knows what it has seen given out, so it wraps a driver before anything else uses it. [`new`](Self::new) asks
/// the driver to keep the rules: it panics when a call succeeds that a rule forbids. [`strict`](Self::strict) asks
/// the caller too: it panics before a call that uses what is not live. R1 and R4 show only over a whole program:
/// those are not checked here; of R7, which captures begin and end.
///
/// Calls that do not wait run one at a time.
///
/// # Panics
/// Every call may, as said; this is for tests.
pub struct Checked {
    inner: Arc<dyn Driver>,
    strict: bool,
    books: Mutex<Books>,
}

impl Checked {
    /// Checks the driver.
    pub fn new(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { inner, strict: false, books: Mutex::default() })
    }

    /// Checks the driver and its caller.
    pub fn strict(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { inner, strict: true, books: Mutex::default() })
    }

    /// What is live, as one line; empty when nothing is: a test's last look.
    pub fn live(&self) -> String {
        let books = self.books();
        let counts = [
            (books.allocations.len(), "allocations"),
            (books.reservations.len(), "reservations"),
            (books.mappings.len(), "mappings"),
            (books.physical.len(), "physical"),
            (books.streams.len(), "streams"),
            (books.events.len(), "events"),
            (books.graphs.len(), "graphs"),
            (books.execs.len(), "launchable graphs"),
            (books.modules.len(), "modules"),
            (books.pooled.len(), "pooled"),
            (books.pinned.len(), "pinned"),
            (books.opened.len(), "opened"),
            (books.registered.len(), "registered"),
        ];
        let live = counts.iter().filter(|(count, _)| *count != 0);
        live.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("inner", &self.inner)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}
