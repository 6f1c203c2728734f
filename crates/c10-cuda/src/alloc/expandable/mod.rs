//! Expandable segments: ranges of addresses far larger than the memory behind them, which grow and shrink by whole
//! *pages* while blocks live in them (`expandable_segments:True`).
//!
//! A page is 2 MiB in a small pool and a large segment (20 MiB) in a large one. The blocks of such a segment tile
//! all of its addresses; those with `mapped` off have no memory behind them and stand in their pool's
//! `unmapped` set. A segment usually serves all of one stream's requests in one pool: what is free at its end and
//! what is not mapped yet behind it are one place for the next large request.
//!
//! - `segment`: the addresses, and the physical memory behind each page.
//! - `table`: the segments of a device.
//! - `reserve`: how many addresses a segment takes.
//! - `sleep`: segments whose memory is given back while their blocks stay.
//! - `restore`: segments from a snapshot.
//! - `unmapped_set`: the blocks of a pool with no memory behind them.
//! - `settings`: what can be said of them at run time.
//! - `grow`, `shrink`: what allocation and the release of cached memory do.

mod grow;
mod reserve;
mod restore;
mod segment;
mod settings;
mod shrink;
mod sleep;
mod table;
mod unmapped_set;

pub(crate) use grow::NoAddresses;
pub(crate) use segment::{ExpandableSegment, release, wait_for};
pub(crate) use sleep::Row;
pub(crate) use table::ExpandableTable;
pub(crate) use unmapped_set::UnmappedSet;
