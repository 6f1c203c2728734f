//! [`Backward`]: a device's segments and live blocks, walked from the end of the history to its beginning.
//!
//! - B1: segments do not overlap.
//! - B2: a live block lies within one segment, and no two overlap, as far as their sizes are known.
//! - B3: a live block's `bound` is the lowest address behind it that something else held while it lived.
//!
//! An event that would break them cannot have happened.

use super::super::Snapshot;
use super::super::event::{Action, Event};
use super::super::segment::{BlockState, PoolId, SMALL_SEGMENT_BYTES};
use crate::by_address::ByAddress;

type Result<T = (), E = String> = std::result::Result<T, E>;

/// The state between two events.
#[derive(Debug)]
pub(super) struct Backward {
    /// By first byte.
    pub(super) segments: ByAddress<Range>,
    /// By first byte.
    pub(super) live: ByAddress<Live>,
}

/// A segment, or one mapped range of an expandable segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// One past the last byte.
    pub(super) end: u64,
    pub(super) stream: u64,
    pub(super) is_small: bool,
    pub(super) is_expandable: bool,
    pub(super) pool_id: PoolId,
}

/// A block that is not free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// Its size, when the end of the file shows it.
    pub(super) size: Option<u64>,
    pub(super) requested_size: u64,
    /// Whether the program has given it back.
    pub(super) pending: bool,
    /// See B3.
    pub(super) bound: u64,
}

impl Live {
    /// One past the last byte that it surely has.
    fn least_end(&self, address: u64) -> u64 {
        address + self.size.unwrap_or(self.requested_size)
    }

    /// Refuses an event about the block that gives it another size.
    fn check_size(&self, event: &Event) -> Result {
        // Either is what some version wrote.
        if event.size == self.requested_size || Some(event.size) == self.size {
            return Ok(());
        }
        let (said, had) = (event.size, self.requested_size);
        Err(format!("gives {said} bytes to the block at {:#x}, which has {had} behind this", event.address))
    }
}

impl Backward {
    /// The state that a snapshot shows.
    pub(super) fn from_end(snapshot: &Snapshot, device: usize) -> Self {
        let mut state = Self { segments: ByAddress::default(), live: ByAddress::default() };
        for segment in snapshot.segments_of(device) {
            let range = Range {
                end: segment.end(),
                stream: segment.stream,
                is_small: segment.is_small,
                is_expandable: segment.is_expandable,
                pool_id: segment.pool_id,
            };
            state.segments.insert(segment.address, range);
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                let live = Live {
                    size: Some(block.size),
                    requested_size: block.requested_size,
                    pending: block.state == BlockState::PendingFree,
                    bound: block.address + block.size,
                };
                state.live.insert(block.address, live);
            }
        }
        state
    }

    /// Goes back over one event.
    ///
    /// # Errors
    /// Why it cannot have happened.
    pub(super) fn undo(&mut self, event: &Event) -> Result {
        match event.action {
            Action::Alloc => self.undo_alloc(event),
            Action::FreeRequested => self.undo_free_requested(event),
            Action::FreeCompleted => self.undo_free_completed(event),
            Action::SegmentAlloc => self.undo_segment_alloc(event),
            Action::SegmentFree => self.undo_segment_free(event),
            Action::SegmentMap => self.undo_segment_map(event),
            Action::SegmentUnmap => self.undo_segment_unmap(event),
            Action::Snapshot | Action::Oom | Action::Annotate => Ok(()),
        }
    }

    fn undo_alloc(&mut self, event: &Event) -> Result {
        match self.live.get(event.address) {
            Some(block) if !block.pending => {
                block.check_size(event)?;
                self.live.remove(event.address);
                Ok(())
            }
            Some(_) => Err(format!("a free of the block at {:#x} is missing behind this", event.address)),
            None => Err(format!(
                "allocates {:#x}, but neither a later free nor the segments at the end know such a block",
                event.address
            )),
        }
    }

    fn undo_free_requested(&mut self, event: &Event) -> Result {
        match self.live.get_mut(event.address) {
            Some(block) if block.pending => {
                block.check_size(event)?;
                block.pending = false;
                Ok(())
            }
            _ => Err(format!(
                "frees {:#x}, but behind this the block is neither freed nor waiting to be freed",
                event.address
            )),
        }
    }

    fn undo_free_completed(&mut self, event: &Event) -> Result {
        let (address, requested_size) = (event.address, event.size);
        let end = address + requested_size;
        let segment = self.segments.at_or_before(address).map(|(_, range)| range.end);
        let segment_end = segment.filter(|&segment_end| address < segment_end && end <= segment_end);
        let segment_end = segment_end.ok_or_else(|| {
            format!("frees {requested_size} bytes at {address:#x}, which is in no segment at that time")
        })?;
        let place = self.live.seek(address);
        let next = self.live.behind(place).map_or(segment_end, |(next, _)| next.min(segment_end));
        if end > next || address == next {
            return Err(format!(
                "frees {requested_size} bytes at {address:#x}, which overlap the live block at {next:#x}"
            ));
        }
        if let Some((before, block)) = self.live.before_mut(place) {
            if block.least_end(before) > address {
                return Err(format!("frees {address:#x}, inside the live block at {before:#x}"));
            }
            block.bound = block.bound.min(address);
        }
        self.live.insert_at(place, address, Live { size: None, requested_size, pending: true, bound: next });
        Ok(())
    }

    fn undo_segment_alloc(&mut self, event: &Event) -> Result {
        let end = event.address + event.size;
        match self.segments.get(event.address) {
            Some(range) if range.end == end && !range.is_expandable => {}
            _ => {
                return Err(format!(
                    "no segment of {} bytes is at {:#x} behind this",
                    event.size, event.address
                ));
            }
        }
        self.check_unused(event.address, end)?;
        self.segments.remove(event.address);
        Ok(())
    }

    fn undo_segment_free(&mut self, event: &Event) -> Result {
        self.check_unheld(event)?;
        let range = Range {
            end: event.address + event.size,
            stream: event.stream,
            // The large pool's segments are of 10 MiB and more.
            is_small: event.size <= SMALL_SEGMENT_BYTES,
            is_expandable: false,
            pool_id: event.pool_id.unwrap_or((0, 0)),
        };
        self.segments.insert(event.address, range);
        Ok(())
    }

    fn undo_segment_map(&mut self, event: &Event) -> Result {
        let (from, to) = (event.address, event.address + event.size);
        let around = self.segments.at_or_before(from);
        let (start, range) = match around {
            Some((start, &range)) if to <= range.end && range.is_expandable && from < to => (start, range),
            _ => return Err(format!("no mapped range holds {} bytes at {from:#x} behind this", event.size)),
        };
        self.check_unused(from, to)?;
        self.segments.remove(start);
        if start < from {
            self.segments.insert(start, Range { end: from, ..range });
        }
        if to < range.end {
            self.segments.insert(to, range);
        }
        Ok(())
    }

    fn undo_segment_unmap(&mut self, event: &Event) -> Result {
        self.check_unheld(event)?;
        let (mut start, mut end) = (event.address, event.address + event.size);
        let joins = |range: &Range| range.is_expandable && range.stream == event.stream;
        let before = self.segments.before(self.segments.seek(start));
        let before = before.filter(|(_, range)| range.end == start && joins(range));
        let before = before.map(|(address, &range)| (address, range));
        // A range that was mapped in one piece with a neighbour was of the neighbour's pool.
        let behind = self.segments.get(end).copied().filter(joins);
        let behind =
            behind.filter(|behind| before.is_none_or(|(_, before)| before.is_small == behind.is_small));
        if let Some(behind) = behind {
            self.segments.remove(end);
            end = behind.end;
        }
        let mut range = behind.or(before.map(|(_, range)| range)).unwrap_or(Range {
            end,
            stream: event.stream,
            // The large pool maps by 20 MiB, the small pool by 2.
            is_small: !event.size.is_multiple_of(10 * SMALL_SEGMENT_BYTES),
            is_expandable: true,
            pool_id: event.pool_id.unwrap_or((0, 0)),
        });
        if let Some((address, _)) = before {
            start = address;
        }
        range.end = end;
        self.segments.insert(start, range);
        Ok(())
    }

    /// Refuses an event that obtains memory in which something is live already.
    fn check_unused(&self, from: u64, to: u64) -> Result {
        // The block before `from` is in another segment, or in the same mapped range.
        let place = self.live.seek(from);
        let before = self.live.before(place).filter(|(address, block)| block.least_end(*address) > from);
        match before.or_else(|| self.live.behind(place).filter(|(address, _)| *address < to)) {
            Some((address, _)) => {
                Err(format!("obtains memory in which the block at {address:#x} already lives"))
            }
            None => Ok(()),
        }
    }

    /// Refuses an event that gives back memory which something still holds.
    fn check_unheld(&self, event: &Event) -> Result {
        let (from, to) = (event.address, event.address + event.size);
        let last = self.segments.before(self.segments.seek(to));
        match last {
            _ if from == to => Err("gives back nothing".into()),
            Some((start, range)) if range.end > from => Err(format!(
                "gives back memory of the segment at {start:#x}, which is still there behind this"
            )),
            _ => Ok(()),
        }
    }
}
