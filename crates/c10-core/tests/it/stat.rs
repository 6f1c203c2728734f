//! The counters of caching allocators.

use c10_core::stat::{DurationStat, Stat, StatArray, StatType};

#[test]
fn a_stat_remembers_its_peak_and_both_sums() {
    let mut stat = Stat::default();
    stat.increase(10);
    stat.increase(5);
    stat.decrease(12);
    stat.increase(1);
    assert_eq!(stat, Stat { current: 4, peak: 15, allocated: 16, freed: 12 });
    stat.reset_peak();
    assert_eq!(stat, Stat { current: 4, peak: 4, allocated: 16, freed: 12 });
    stat.reset_accumulated();
    assert_eq!(stat, Stat { current: 4, peak: 4, allocated: 0, freed: 0 });
}

#[test]
fn the_aggregate_is_the_sum_of_the_pools() {
    let mut stats = StatArray::default();
    stats.increase(true, 512);
    stats.increase(false, 2048);
    stats.decrease(true, 512);
    assert_eq!(stats.of(StatType::Aggregate).current, 2048);
    assert_eq!(stats.of(StatType::SmallPool), &Stat { current: 0, peak: 512, allocated: 512, freed: 512 });
    assert_eq!(stats.of(StatType::LargePool).peak, 2048);
    // The peak of the aggregate is its own, not the sum of the pools' peaks at different times.
    stats.increase(true, 100);
    assert_eq!((stats.all.current, stats.all.peak), (2148, 2560));
    stats.reset_peak();
    assert_eq!((stats.all.peak, stats.small.peak, stats.large.peak), (2148, 100, 2048));
    stats.reset_accumulated();
    assert_eq!((stats.all.allocated, stats.small.freed, stats.large.allocated), (0, 0, 0));
}

#[test]
fn a_duration_stat_remembers_both_extremes() {
    let mut stat = DurationStat::default();
    for microseconds in [30, 10, 20] {
        stat.increase(microseconds);
    }
    assert_eq!(stat, DurationStat { total: 60, max: 30, min: 10, count: 3 });
    stat.reset_accumulated();
    assert_eq!(stat, DurationStat { total: 0, max: 30, min: 10, count: 0 });
    stat.reset_peak();
    stat.increase(40);
    assert_eq!(stat, DurationStat { total: 40, max: 40, min: 40, count: 1 });
}
