//! The bins against a tree of the same keys.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::alloc::ids::{BlockId, PoolId};

#[derive(Clone, Debug)]
enum Op {
    Insert { size: u64, tie: u64 },
    Remove(usize),
    Resize { at: usize, size: u64 },
    First(u64),
}

fn size() -> impl Strategy<Value = u64> {
    // Few sizes, so that bins grow long, and sizes of every magnitude.
    let units = prop_oneof![0_u64..4, 1_u64..200, 4000_u64..4200, (0_u32..52).prop_map(|p| 1 << p)];
    units.prop_map(|units| units * MIN_BLOCK_SIZE)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (size(), 0_u64..3).prop_map(|(size, tie)| Op::Insert { size, tie }),
        2 => any::<prop::sample::Index>().prop_map(|at| Op::Remove(at.index(1 << 20))),
        2 => (any::<prop::sample::Index>(), size())
            .prop_map(|(at, size)| Op::Resize { at: at.index(1 << 20), size }),
        2 => size().prop_map(Op::First),
    ]
}

fn block(size: u64, tie: u64, ptr: u64) -> Block {
    Block::new(ptr, size, 0, tie, PoolId::LARGE)
}

proptest! {
    #[test]
    fn bins_are_an_ordered_set(ops in vec(op(), 1..400), by_address in any::<bool>()) {
        let order = if by_address { OrderOfEquals::Address } else { OrderOfEquals::Registration };
        let mut bins = SizeBins::new(order);
        let mut blocks = BlockTable::default();
        let mut tree = BTreeSet::new();
        for (at, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert { size, tie } => {
                    // Addresses are not in the order of insertion.
                    let ptr = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let id = blocks.insert(block(size, tie, ptr));
                    bins.insert(&mut blocks, id.index);
                    tree.insert((bins.key(&blocks[id]), id.index));
                }
                Op::Remove(at) => {
                    let Some(entry) = tree.iter().nth(at % tree.len().max(1)).copied() else { continue };
                    tree.remove(&entry);
                    let id = blocks.id_at(entry.1).expect("it is in the set");
                    prop_assert!(bins.contains(&blocks, id.index));
                    bins.remove(&mut blocks, id.index);
                    prop_assert!(!bins.contains(&blocks, id.index));
                    blocks.remove(id);
                }
                Op::Resize { at: place, size } => {
                    let Some(entry) = tree.iter().nth(place % tree.len().max(1)).copied() else { continue };
                    tree.remove(&entry);
                    // Now and then only a little.
                    let size = if at % 2 == 0 { entry.0.size ^ MIN_BLOCK_SIZE } else { size };
                    let ptr = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    bins.resize(&mut blocks, entry.1, ptr, size);
                    let block = blocks.block(entry.1);
                    prop_assert_eq!((block.ptr, block.size), (ptr, size));
                    tree.insert((bins.key(block), entry.1));
                }
                Op::First(size) => {
                    let first = tree.range((Key { size, tie: 0, ptr: 0 }, 0)..).next().map(|(_, index)| *index);
                    prop_assert_eq!(bins.first_from(&blocks, size), first);
                }
            }
            prop_assert_eq!(bins.iter(&blocks).count(), tree.len());
        }
        prop_assert!(bins.iter(&blocks).eq(tree.iter().map(|(_, index)| *index)));
        prop_assert!(bins.iter(&blocks).rev().eq(tree.iter().rev().map(|(_, index)| *index)));
    }
}

#[test]
fn a_bin_of_many_equals_is_a_tree_and_a_list_again() {
    let mut bins = SizeBins::new(OrderOfEquals::Registration);
    let mut blocks = BlockTable::default();
    let ids: Vec<BlockId> = (0..100).map(|at| blocks.insert(block(4096, 0, 97 * at % 100))).collect();
    ids.iter().for_each(|id| bins.insert(&mut blocks, id.index));
    assert!(bins.bins[bin_of(4096)].as_tree().is_some());
    for id in &ids[3..] {
        bins.remove(&mut blocks, id.index);
    }
    assert!(bins.bins[bin_of(4096)].as_tree().is_none());
    let rest: Vec<u64> = bins.iter(&blocks).map(|index| blocks.at(index).1.ptr).collect();
    assert_eq!(rest, [0, 94, 97]);
}

#[test]
fn bins_follow_the_size() {
    let sizes: Vec<u64> = (0..61).flat_map(|p| [(1_u64 << p) - 1, 1 << p, (1 << p) + 1]).collect();
    for pair in sizes.windows(2).filter(|pair| pair[0] <= pair[1]) {
        assert!(bin_of(pair[0]) <= bin_of(pair[1]), "{pair:?}");
    }
    assert!(bin_of(u64::MAX) < BINS);
}
