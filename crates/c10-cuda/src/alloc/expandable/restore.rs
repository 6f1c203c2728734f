//! Rebuilding expandable segments from the rows of mapped pages that a snapshot shows.
//!
//! A snapshot does not say which rows are of one segment, nor how many addresses it has: those of one stream and pool
//! are, as far as its addresses reach, and these end at the next segment at the latest.

use super::segment::ExpandableSegment;
use crate::alloc::block::Block;
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::BlockId;
use crate::alloc::restore::misplaced;
use crate::alloc::{MempoolId, SegmentInfo};
use crate::driver::{DevicePtr, StreamHandle};
use crate::error::{Error, ErrorKind, Result};

/// A segment from the driver, and the places of its rows in the snapshot, by address.
pub(crate) struct Taken {
    segment: ExpandableSegment,
    rows: Vec<usize>,
}

/// The rows of one stream in one of its pools.
struct Rows {
    pool: MempoolId,
    stream: StreamHandle,
    is_large: bool,
    places: Vec<usize>,
}

impl Rows {
    fn hold(&self, row: &SegmentInfo) -> bool {
        (row.pool, row.stream, row.is_large) == (self.pool, self.stream, self.is_large)
    }
}

impl Locked<'_> {
    /// All expandable segments of a snapshot from the driver, with their rows mapped, or none.
    pub(crate) fn take_expandable(&mut self, segments: &[SegmentInfo]) -> Result<Vec<Taken>> {
        let mut taken = Vec::new();
        for rows in rows_of(segments) {
            let mut left = &rows.places[..];
            while !left.is_empty() {
                match self.take_one(segments, &rows, left) {
                    Ok(one) => {
                        left = &left[one.rows.len()..];
                        taken.push(one);
                    }
                    Err(error) => {
                        self.give_back_expandable(taken);
                        return Err(error);
                    }
                }
            }
        }
        Ok(taken)
    }

    /// The segment that begins with the first of the rows that are left, and those of them that lie in it.
    fn take_one(&mut self, segments: &[SegmentInfo], rows: &Rows, left: &[usize]) -> Result<Taken> {
        let base = segments[left[0]].address;
        let page = self.page_of(rows.is_large);
        let limit = self.reserve_limit(rows.stream.raw)?.bytes.next_multiple_of(page);
        let others = segments.iter().filter(|other| !other.is_expandable || !rows.hold(other));
        let next = others.map(|other| other.address.0).filter(|at| *at > base.0).min();
        let room = next.map_or(limit, |next| limit.min((next - base.0) / page * page));
        let inside = |place: &&usize| end_of(&segments[**place]) - base.0 <= room;
        let places: Vec<usize> = left.iter().take_while(inside).copied().collect();
        let whole = |place: &usize| {
            let row = &segments[*place];
            (row.address.0 - base.0).is_multiple_of(page) && row.total_size.is_multiple_of(page)
        };
        let apart = |pair: &[usize]| end_of(&segments[pair[0]]) <= segments[pair[1]].address.0;
        if places.is_empty() || !places.iter().all(whole) || !places.windows(2).all(apart) {
            let text =
                format!("restore: the mapped ranges from {base} on are no whole pages of {page} bytes");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let device = self.device;
        let driver = &*device.driver;
        let segment = ExpandableSegment::reserve(driver, rows.stream, page, room, &self.expandable.peers)?;
        let mut taken = Taken { segment, rows: places };
        let mapped = self.map_rows(&mut taken, segments, base);
        match mapped {
            Ok(()) => Ok(taken),
            Err(error) => {
                self.give_back_expandable(vec![taken]);
                Err(error)
            }
        }
    }

    fn map_rows(&mut self, taken: &mut Taken, segments: &[SegmentInfo], base: DevicePtr) -> Result<()> {
        let got = DevicePtr(taken.segment.base());
        if got != base {
            return Err(misplaced(got, base));
        }
        let driver = &*self.device.driver;
        for place in &taken.rows {
            let row = &segments[*place];
            let unreleased = &mut self.expandable.unreleased;
            taken.segment.map(driver, row.address.0, row.total_size, 1, unreleased)?;
        }
        Ok(())
    }

    /// Gives back segments that nobody has seen. There is nobody to tell of an error; what the driver keeps is offered
    /// to it again.
    pub(crate) fn give_back_expandable(&mut self, taken: Vec<Taken>) {
        let driver = &*self.device.driver;
        for Taken { mut segment, .. } in taken {
            segment.unmap_all(driver, &mut self.expandable.unreleased);
            let _ = segment.free(driver, &mut self.expandable.unreleased);
        }
    }
}

impl DeviceState {
    /// Takes in the blocks of a segment. Adds those that are allocated at the places of their rows.
    pub(crate) fn restore_expandable(
        &mut self,
        taken: Taken,
        segments: &[SegmentInfo],
        allocated: &mut [Vec<(BlockId, u64)>],
    ) {
        let Taken { segment, rows } = taken;
        let first = &segments[rows[0]];
        let (mut reached, end) = (segment.base(), segment.base() + segment.bytes());
        let pool = self.pool_for(first);
        let expandable = Some(self.expandable.insert(segment));
        self.pools.owner_mut(pool.owner).segments += 1;
        let registration = self.next_registration;
        self.next_registration += 1;
        let like = Block { expandable, ..Block::new(reached, 0, first.stream.raw, registration, pool) };
        let unmapped =
            |from: u64, to: u64| Block { ptr: from, size: to - from, mapped: false, ..like.clone() };
        let mut last = None;
        for place in rows {
            let row = &segments[place];
            if reached < row.address.0 {
                last = Some(self.append(unmapped(reached, row.address.0), last));
            }
            last = self.restore_row(row, &like, last, &mut allocated[place]);
            self.count_mapping(pool, row.total_size);
            reached = end_of(row);
        }
        if reached < end {
            last = Some(self.append(unmapped(reached, end), last));
        }
        self.restore_free(last);
    }
}

fn end_of(segment: &SegmentInfo) -> u64 {
    segment.address.0 + segment.total_size
}

/// The rows of a snapshot by stream and pool, those of each by address.
fn rows_of(segments: &[SegmentInfo]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for (place, row) in segments.iter().enumerate().filter(|(_, segment)| segment.is_expandable) {
        let SegmentInfo { pool, stream, is_large, .. } = *row;
        match all.iter_mut().find(|rows| rows.hold(row)) {
            Some(rows) => rows.places.push(place),
            None => all.push(Rows { pool, stream, is_large, places: vec![place] }),
        }
    }
    all.iter_mut().for_each(|rows| rows.places.sort_by_key(|place| segments[*place].address));
    all
}
