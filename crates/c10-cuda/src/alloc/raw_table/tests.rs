//! The table against a map.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::alloc::block::Block;
use crate::alloc::ids::PoolId;

fn block(blocks: &mut BlockTable, address: u64) -> u32 {
    blocks.insert(Block::new(address, MIN_BLOCK_SIZE, 0, 0, PoolId::SMALL)).index
}

proptest! {
    #[test]
    fn it_holds_what_a_map_holds(ops in vec((1_u64..120, any::<bool>()), 1..400), stride in prop_oneof![
        1_u64..5000,
        // Addresses with the same tag.
        Just(1 << 32),
    ]) {
        let (mut table, mut map, mut blocks) = (RawTable::default(), BTreeMap::new(), BlockTable::default());
        for (number, adds) in ops {
            let address = number * stride * MIN_BLOCK_SIZE;
            prop_assert_eq!(table.get(&blocks, address), map.get(&address).copied());
            if !adds {
                prop_assert_eq!(table.remove(&blocks, address), map.remove(&address));
            } else if let Entry::Vacant(place) = map.entry(address) {
                let index = block(&mut blocks, address);
                table.insert(&blocks, index);
                place.insert(index);
            }
        }
        let mut all: Vec<_> = table.iter().collect();
        all.sort_unstable();
        let mut expected: Vec<_> = map.into_values().collect();
        expected.sort_unstable();
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn a_run_over_the_end_of_the_table_closes_up() {
    // Addresses whose home is one of the last two places of 64.
    let addresses: Vec<u64> =
        (1..).map(|n| n * MIN_BLOCK_SIZE).filter(|address| home(tag(*address)) & 63 >= 62).take(8).collect();
    let (mut table, mut blocks) = (RawTable::default(), BlockTable::default());
    let slots: Vec<u32> = addresses.iter().map(|address| block(&mut blocks, *address)).collect();
    slots.iter().for_each(|index| table.insert(&blocks, *index));
    assert_eq!(table.places.len(), 64);
    for (at, address) in addresses.iter().enumerate() {
        assert_eq!(table.remove(&blocks, *address), Some(slots[at]));
        for (later, address) in addresses.iter().enumerate().skip(at + 1) {
            assert_eq!(table.get(&blocks, *address), Some(slots[later]));
        }
    }
    assert_eq!(table.iter().count(), 0);
}
