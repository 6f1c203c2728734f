//! Whether the pieces that [`stitch`] chooses make up a block, and windows have addresses of their own.

use proptest::prelude::*;

use super::PAGE;
use super::addresses::Addresses;
use super::holes::Piece;
use super::stitch::{Hole, stitch};
use crate::driver::{DevicePtr, VaRange};

/// Homes one behind the other: handles of some pages, each with the part of it that is free, in units of 512 bytes.
fn holes() -> impl Strategy<Value = Vec<Hole>> {
    let handle = (1..=4_u64, 0..=4_u64, 0..=4_u64);
    prop::collection::vec(handle, 1..24).prop_map(|handles| {
        let mut holes: Vec<Hole> = Vec::new();
        let mut start = PAGE;
        for (pages, before, behind) in handles {
            let end = start + pages * PAGE;
            // Used at the front, at the back, at both, or not at all.
            let at = start + before.saturating_sub(2) * 700 * 512;
            let to = end - behind.saturating_sub(2) * 500 * 512;
            match holes.last_mut() {
                Some(last) if last.end == start && at == start => last.end = to,
                _ => holes.push(Hole { at, end: to, cuts: Vec::new(), first_handle: start }),
            }
            let last = holes.len() - 1;
            let mut cuts: Vec<u64> = [start, end].into_iter().filter(|cut| (at..=to).contains(cut)).collect();
            cuts.retain(|cut| !holes[last].cuts.contains(cut));
            holes[last].cuts.extend(cuts);
            start = end;
        }
        holes.retain(|hole| !hole.cuts.is_empty());
        holes
    })
}

fn is_in(holes: &[Hole], piece: &Piece) -> bool {
    holes.iter().any(|hole| hole.at <= piece.at && piece.at + piece.bytes <= hole.end)
}

fn is_cut(holes: &[Hole], at: u64) -> bool {
    holes.iter().any(|hole| hole.cuts.contains(&at))
}

proptest! {
    /// Pieces are free, apart, of the size together, and whole handles but for the ends of the row.
    #[test]
    fn pieces_make_up_the_block(holes in holes(), units in 1..60_000_u64) {
        let size = units * 512;
        match stitch(&holes, size) {
            Ok(pieces) => {
                prop_assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), size);
                let mut sorted = pieces.clone();
                sorted.sort_unstable_by_key(|piece| piece.at);
                for pair in sorted.windows(2) {
                    prop_assert!(pair[0].at + pair[0].bytes <= pair[1].at, "{:?} overlap", pair);
                }
                for (nth, piece) in pieces.iter().enumerate() {
                    prop_assert!(piece.bytes > 0 && is_in(&holes, piece), "{:?}", piece);
                    let (first, last) = (nth == 0, nth + 1 == pieces.len());
                    prop_assert!(first || is_cut(&holes, piece.at), "{:?} begins within a handle", piece);
                    prop_assert!(last || is_cut(&holes, piece.at + piece.bytes), "{:?} ends within one", piece);
                }
            }
            Err(missing) => prop_assert!(missing > 0),
        }
    }
}

#[test]
fn what_is_missing_is_told() {
    assert_eq!(stitch(&[], 3 * PAGE), Err(3 * PAGE));
    let hole = Hole { at: PAGE, end: 3 * PAGE, cuts: vec![PAGE, 2 * PAGE, 3 * PAGE], first_handle: PAGE };
    assert_eq!(stitch(std::slice::from_ref(&hole), 3 * PAGE), Err(PAGE));
    assert_eq!(stitch(&[hole], 2 * PAGE), Ok(vec![Piece { at: PAGE, bytes: 2 * PAGE }]));
}

#[test]
fn the_ends_of_a_row_spare_whole_handles() {
    let head = Hole { at: 2 * PAGE, end: 9 * PAGE, cuts: vec![5 * PAGE, 9 * PAGE], first_handle: PAGE };
    let tail = Hole { at: 20 * PAGE, end: 22 * PAGE, cuts: vec![20 * PAGE], first_handle: 20 * PAGE };
    let [first, last] = [Piece { at: 2 * PAGE, bytes: 3 * PAGE }, Piece { at: 20 * PAGE, bytes: 2 * PAGE }];
    assert_eq!(stitch(&[head.clone(), tail.clone()], 5 * PAGE), Ok(vec![first, last]));
    let whole = Piece { at: 5 * PAGE, bytes: 4 * PAGE };
    assert_eq!(stitch(&[head, tail], 9 * PAGE), Ok(vec![first, whole, last]));
}

#[test]
fn windows_in_a_range_are_apart_and_it_goes_with_the_last() {
    let range = VaRange { base: DevicePtr(PAGE), bytes: 8 * PAGE };
    let mut addresses = Addresses::default();
    assert_eq!(addresses.take(PAGE), None);
    addresses.insert(range);
    let [one, two] = [3, 5].map(|pages| addresses.take(pages * PAGE).unwrap());
    assert_eq!((one.base, two.base), (range.base, range.base.offset(3 * PAGE)));
    assert_eq!(addresses.take(PAGE), None, "it is full");
    addresses.leave(one);
    assert_eq!((addresses.unused(), addresses.take(PAGE)), (None, None));
    addresses.leave(two);
    assert_eq!(addresses.unused(), Some(range));
    assert_eq!(addresses.take(8 * PAGE), Some(range));
    addresses.leave(range);
    addresses.remove(range);
    assert_eq!(addresses.unused(), None);
}
