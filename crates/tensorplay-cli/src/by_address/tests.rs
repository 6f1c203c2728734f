use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{ByAddress, RUN};

proptest! {
    /// Against the standard library's tree, with runs that split and vanish.
    #[test]
    fn it_is_an_ordered_map(steps in prop::collection::vec((0..4_u8, 0..1000_u64), 0..4 * RUN)) {
        let (mut map, mut model) = (ByAddress::default(), BTreeMap::new());
        for (number, (what, address)) in steps.into_iter().enumerate() {
            // Some at the very end.
            let address = if address < 990 { address } else { u64::MAX - (address - 990) };
            if what == 0 {
                prop_assert_eq!(map.remove(address), model.remove(&address));
            } else {
                map.insert(address, number);
                model.insert(address, number);
            }
            let place = map.seek(address);
            let behind = model.range(address..).next().map(|(at, value)| (*at, value));
            let before = model.range(..address).next_back().map(|(at, value)| (*at, value));
            let not_behind = model.range(..=address).next_back().map(|(at, value)| (*at, value));
            prop_assert_eq!(map.behind(place), behind);
            prop_assert_eq!(map.before(place), before);
            prop_assert_eq!(map.at_or_before(address), not_behind);
            prop_assert_eq!(map.get(address), model.get(&address));
            let end = address.saturating_add(100);
            prop_assert!(map.range(address..end).eq(model.range(address..end).map(|(at, value)| (*at, value))));
        }
        prop_assert!(map.iter().eq(model.iter().map(|(at, value)| (*at, value))));
        prop_assert!(map.runs.iter().all(|run| (1..=RUN).contains(&run.addresses.len())));
    }
}

#[test]
fn many_in_order_split_into_runs_and_all_are_found() {
    for falls in [false, true] {
        let mut map = ByAddress::default();
        let all = 0..10 * RUN as u64;
        for number in all.clone() {
            let address = if falls { all.end - 1 - number } else { number };
            map.insert(address, number);
        }
        assert!(map.runs.len() >= 10);
        assert!(map.iter().map(|(address, _)| address).eq(all.clone()));
        assert!(all.clone().all(|address| map.remove(address).is_some()));
        assert!(map.runs.is_empty() && map.firsts.is_empty());
    }
}
