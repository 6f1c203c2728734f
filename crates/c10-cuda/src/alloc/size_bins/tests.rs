//! The bins against a tree of the same keys.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(Key),
    Remove(usize),
    First(u64),
}

fn key() -> impl Strategy<Value = Key> {
    // Few sizes, so that bins grow long, and sizes of every magnitude.
    let units = prop_oneof![0_u64..4, 1_u64..200, 4000_u64..4200, (0_u32..52).prop_map(|p| 1 << p)];
    (units, 0_u64..3, 0_u64..500, 0_u32..4).prop_map(|(units, tie, ptr, index)| Key {
        size: units * MIN_BLOCK_SIZE,
        tie,
        ptr,
        id: BlockId { index, generation: NonZeroU32::MIN },
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => key().prop_map(Op::Insert),
        2 => any::<prop::sample::Index>().prop_map(|at| Op::Remove(at.index(1 << 20))),
        2 => key().prop_map(|key| Op::First(key.size)),
    ]
}

proptest! {
    #[test]
    fn bins_are_an_ordered_set(ops in vec(op(), 1..400)) {
        let mut bins = SizeBins::new();
        let mut tree = BTreeSet::new();
        for op in ops {
            match op {
                Op::Insert(key) => prop_assert_eq!(bins.insert(key), tree.insert(key)),
                Op::Remove(at) => {
                    let Some(key) = tree.iter().nth(at % tree.len().max(1)).copied() else { continue };
                    prop_assert!(bins.remove(&key) && tree.remove(&key));
                    prop_assert!(!bins.remove(&key));
                }
                Op::First(size) => {
                    let first = tree.range(Key::before(size)..).next().copied();
                    prop_assert_eq!(bins.first_from(size), first);
                }
            }
            prop_assert_eq!(bins.len(), tree.len());
        }
        prop_assert!(bins.iter().eq(tree.iter().copied()));
        prop_assert!(bins.iter().rev().eq(tree.iter().rev().copied()));
        prop_assert!(tree.iter().all(|key| bins.contains(key)));
    }
}

#[test]
fn bins_follow_the_size() {
    let sizes: Vec<u64> = (0..61).flat_map(|p| [(1_u64 << p) - 1, 1 << p, (1 << p) + 1]).collect();
    for pair in sizes.windows(2).filter(|pair| pair[0] <= pair[1]) {
        assert!(bin_of(pair[0]) <= bin_of(pair[1]), "{pair:?}");
    }
    assert!(bin_of(u64::MAX) < BINS);
}
