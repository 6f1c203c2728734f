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
                prop_assert_eq!(table.remove(&mut blocks, address), map.remove(&address));
            } else if let Entry::Vacant(place) = map.entry(address) {
                let index = block(&mut blocks, address);
                table.insert(&mut blocks, index);
                place.insert(index);
            }
        }
        let mut all: Vec<_> = table.iter(&blocks).collect();
        all.sort_unstable();
        let mut expected: Vec<_> = map.into_values().collect();
        expected.sort_unstable();
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn any_of_a_long_list_goes() {
    // Addresses of one list of 64.
    let full = RawTable { heads: vec![NOWHERE; 64], len: 0 };
    let addresses = (1..).map(|n| n * MIN_BLOCK_SIZE).filter(|address| full.list(*address) == 63);
    let addresses: Vec<u64> = addresses.take(8).collect();
    let (mut table, mut blocks) = (RawTable::default(), BlockTable::default());
    let slots: Vec<u32> = addresses.iter().map(|address| block(&mut blocks, *address)).collect();
    slots.iter().for_each(|index| table.insert(&mut blocks, *index));
    assert_eq!(table.heads.len(), 64);
    // First, last and in between.
    let mut left: Vec<usize> = (0..8).collect();
    for at in [7, 0, 3, 4, 6, 1, 5, 2] {
        assert_eq!(table.remove(&mut blocks, addresses[at]), Some(slots[at]));
        assert_eq!(table.remove(&mut blocks, addresses[at]), None);
        left.retain(|other| *other != at);
        for &other in &left {
            assert_eq!(table.get(&blocks, addresses[other]), Some(slots[other]));
        }
    }
    assert_eq!(table.iter(&blocks).count(), 0);
}
