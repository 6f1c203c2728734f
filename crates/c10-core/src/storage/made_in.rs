//! [`MadeIn`]: the line of a program that a storage comes from, found in its backtrace.
//!
//! Frames are told apart by their source files, not by their number nor by the names of functions: an optimised
//! build makes one frame of many functions, and line tables alone hold no more of a function's name than its end.
//! A build that knows lines at all knows the file of every function, inlined or not.

use std::fmt;

use super::StorageDump;

/// The line of a program that a storage comes from, or why none is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MadeIn {
    /// At this file, line and column.
    Place(String),
    /// It was made elsewhere, as on a thread that runs none of these files.
    Elsewhere,
    /// No backtrace was captured (feature `leak-tracking`, `capture_backtraces`).
    NotCaptured,
    /// A backtrace was captured, and the build holds no lines.
    NoLines,
}

impl StorageDump {
    /// The innermost place of the backtrace whose source file `is_mine` accepts. Files are named as the compiler
    /// was told of them, some relative to the current directory.
    ///
    /// ```
    /// use c10_core::storage::{MadeIn, Storage};
    ///
    /// let dump = Storage::from_bytes(Box::from(*b"abc"))?.dump();
    /// match dump.made_in(|file| file.ends_with("src/main.rs")) {
    ///     MadeIn::Place(place) => println!("the storage was made at {place}"),
    ///     unknown => println!("the storage was made at {unknown}"),
    /// }
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    pub fn made_in(&self, is_mine: impl Fn(&str) -> bool) -> MadeIn {
        let Some((place, backtrace)) = self.made_at.as_deref().map(split) else {
            return MadeIn::NotCaptured;
        };
        let mut places =
            std::iter::once(place).chain(backtrace.unwrap_or_default().lines().filter_map(frame_place));
        if let Some(mine) = places.find(|place| is_mine(file(place))) {
            return MadeIn::Place(mine.to_owned());
        }
        match backtrace {
            None => MadeIn::NotCaptured,
            Some(text) if text.lines().filter_map(frame_place).all(is_of_toolchain) => MadeIn::NoLines,
            Some(_) => MadeIn::Elsewhere,
        }
    }
}

/// The place that the caller was in, and the backtrace.
fn split(made_at: &str) -> (&str, Option<&str>) {
    match made_at.split_once('\n') {
        Some((place, backtrace)) => (place, Some(backtrace)),
        None => (made_at, None),
    }
}

/// The place in a line of a backtrace that has one: `at file:line:column`, after the line of its function.
fn frame_place(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("at ")
}

/// The file of `file:line:column`, which may itself have colons in it.
fn file(place: &str) -> &str {
    without_number(without_number(place))
}

fn without_number(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((before, number)) if number.parse::<u32>().is_ok() => before,
        _ => place,
    }
}

/// The standard library and the C library come with lines of their own, whatever the build.
fn is_of_toolchain(place: &str) -> bool {
    let file = file(place);
    !file.ends_with(".rs") || file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/")
}

impl fmt::Display for MadeIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(place) => f.write_str(place),
            Self::Elsewhere => f.write_str("a place outside these files"),
            Self::NotCaptured => f.write_str("an unknown place: no backtrace was captured"),
            Self::NoLines => f.write_str(
                "an unknown place: the build holds no lines; give its profile `debug = \"line-tables-only\"`",
            ),
        }
    }
}
