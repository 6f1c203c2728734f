//! [`stitch`]: which pieces of free memory make up a block.
//!
//! A handle is mapped whole, and pages behind each other at the block's addresses: so every piece is whole handles,
//! but for the first, the *head*, which may be the end of a handle, and the last, the *tail*, which may be the
//! beginning of one.

use super::PAGE;
use super::holes::Piece;

/// A free range with at least one place where a handle ends or begins: its *cuts*, in order.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) cuts: Vec<u64>,
    /// Where the handle begins that the hole begins in.
    pub(super) first_handle: u64,
}

impl Hole {
    fn first_cut(&self) -> u64 {
        self.cuts[0]
    }

    fn last_cut(&self) -> u64 {
        self.cuts[self.cuts.len() - 1]
    }

    /// Bytes that can be a block's first: the end of a handle.
    fn head(&self) -> u64 {
        self.first_cut() - self.at
    }

    /// Bytes that can be a block's last: the beginning of a handle.
    fn tail(&self) -> u64 {
        self.end - self.last_cut()
    }

    fn whole(&self) -> u64 {
        self.last_cut() - self.first_cut()
    }

    /// Its whole handles.
    fn handles(&self) -> impl Iterator<Item = Piece> {
        self.cuts.windows(2).map(|cut| Piece { at: cut[0], bytes: cut[1] - cut[0] })
    }

    /// The last bytes before its first cut.
    fn head_piece(&self, bytes: u64) -> Piece {
        Piece { at: self.first_cut() - bytes, bytes }
    }

    /// The first bytes behind its last cut.
    fn tail_piece(&self, bytes: u64) -> Piece {
        Piece { at: self.last_cut(), bytes }
    }
}

/// The pieces of a block of `size` bytes, in its order; or how many bytes are missing.
pub(super) fn stitch(holes: &[Hole], size: u64) -> Result<Vec<Piece>, u64> {
    let head = holes.iter().map(Hole::head).max().unwrap_or(0);
    let tail = holes.iter().map(Hole::tail).max().unwrap_or(0);
    let there = holes.iter().map(Hole::whole).sum::<u64>() + head + tail;
    if there < size {
        return Err(size - there);
    }
    let mut choice = Choice { holes, used: Vec::new(), left: size, for_ends: head + tail };
    choice.take_whole_holes();
    let mut ends = choice.ends();
    for for_ends in [choice.for_ends, 0] {
        if ends.is_none() {
            choice.for_ends = for_ends;
            choice.take_handles();
            ends = choice.ends();
        }
    }
    // Its head and its tail would be of one handle, or what is there does not come to the size.
    let (head, tail) = ends.ok_or(PAGE)?;
    let pieces = head.into_iter().chain(choice.used).chain(tail);
    Ok(pieces.filter(|piece| piece.bytes > 0).collect())
}

/// What has been chosen, and what is left to choose.
struct Choice<'a> {
    holes: &'a [Hole],
    /// Whole handles.
    used: Vec<Piece>,
    left: u64,
    /// When so few bytes are left, the ends of the row take them: what they are of is of no other use to such blocks,
    /// and handles stay whole.
    for_ends: u64,
}

impl Choice<'_> {
    /// Takes all handles of holes, the largest first, as long as they are not too many; of the first that has too many
    /// those that are not.
    fn take_whole_holes(&mut self) {
        let mut order: Vec<_> = self.holes.iter().filter(|hole| hole.whole() > 0).collect();
        order.sort_unstable_by_key(|hole| std::cmp::Reverse((hole.whole(), hole.at)));
        for hole in order {
            if self.left <= self.for_ends {
                break;
            }
            let mut taken = 0;
            for handle in hole.handles() {
                if taken + handle.bytes > self.left || self.left - taken <= self.for_ends {
                    break;
                }
                taken += handle.bytes;
            }
            if taken > 0 {
                self.used.push(Piece { at: hole.first_cut(), bytes: taken });
                self.left -= taken;
            }
            if taken < hole.whole() {
                break;
            }
        }
    }

    /// Takes single handles that are not too large.
    fn take_handles(&mut self) {
        for handle in self.holes.iter().flat_map(Hole::handles) {
            if self.left <= self.for_ends {
                break;
            }
            if handle.bytes <= self.left && !self.is_used(handle) {
                self.left -= handle.bytes;
                self.used.push(handle);
            }
        }
    }

    fn is_used(&self, handle: Piece) -> bool {
        self.used.iter().any(|piece| piece.at <= handle.at && handle.at < piece.at + piece.bytes)
    }

    /// A head and a tail that come to what is left: one of them as small as will do, else both, else the beginning of
    /// a handle that is not used.
    fn ends(&self) -> Option<(Option<Piece>, Option<Piece>)> {
        let left = self.left;
        if left == 0 {
            return Some((None, None));
        }
        let smallest = |bytes: fn(&Hole) -> u64, least: u64| {
            self.holes.iter().filter(|hole| bytes(hole) >= least).min_by_key(|hole| (bytes(hole), hole.at))
        };
        if let Some(hole) = smallest(Hole::tail, left) {
            return Some((None, Some(hole.tail_piece(left))));
        }
        if let Some(hole) = smallest(Hole::head, left) {
            return Some((Some(hole.head_piece(left)), None));
        }
        let both = self.holes.iter().max_by_key(|hole| (hole.tail(), hole.at)).and_then(|tail| {
            let rest = left - tail.tail();
            let head = smallest(Hole::head, rest)?;
            (head.first_handle != tail.last_cut())
                .then(|| (Some(head.head_piece(rest)), Some(tail.tail_piece(tail.tail()))))
        });
        both.or_else(|| {
            let handles = self.holes.iter().flat_map(Hole::handles);
            let fitting = handles.filter(|handle| handle.bytes >= left && !self.is_used(*handle));
            let handle = fitting.min_by_key(|handle| (handle.bytes, handle.at))?;
            Some((None, Some(Piece { bytes: left, ..handle })))
        })
    }
}
