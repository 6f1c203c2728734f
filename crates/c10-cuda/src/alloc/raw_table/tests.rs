//! The table against a map.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn id(index: u32) -> BlockId {
    BlockId { index, generation: NonZeroU32::MIN }
}

proptest! {
    #[test]
    fn it_holds_what_a_map_holds(ops in vec((1_u64..120, any::<bool>()), 1..400), stride in 1_u64..5000) {
        let (mut table, mut map) = (RawTable::default(), BTreeMap::new());
        for (at, (number, adds)) in ops.into_iter().enumerate() {
            let address = number * stride * MIN_BLOCK_SIZE;
            prop_assert_eq!(table.get(address), map.get(&address).copied());
            if !adds {
                prop_assert_eq!(table.remove(address), map.remove(&address));
            } else if let Entry::Vacant(place) = map.entry(address) {
                table.insert(address, id(at as u32));
                place.insert(id(at as u32));
            }
        }
        let mut all: Vec<_> = table.iter().collect();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(map));
    }
}

#[test]
fn a_run_over_the_end_of_the_table_closes_up() {
    // Addresses whose home is one of the last two places of 64.
    let addresses: Vec<u64> =
        (1..).map(|n| n * MIN_BLOCK_SIZE).filter(|address| home(*address) & 63 >= 62).take(8).collect();
    let mut table = RawTable::default();
    for (index, address) in (0..).zip(&addresses) {
        table.insert(*address, id(index));
    }
    for (index, address) in (0..).zip(&addresses) {
        assert_eq!(table.remove(*address), Some(id(index)));
        for (later, address) in (0..).zip(&addresses).skip(index as usize + 1) {
            assert_eq!(table.get(*address), Some(id(later)));
        }
    }
    assert_eq!(table.iter().count(), 0);
}
