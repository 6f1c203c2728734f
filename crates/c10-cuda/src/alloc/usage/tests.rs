//! What is worked out against statistics that count everything.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    HandOut { is_small: bool, size: u64, split: (i64, i64) },
    Free { at: usize, waits: bool, split: (i64, i64) },
    EndWait(usize),
    Repeat { at: usize, split: (i64, i64), times: i64 },
    ResetPeak,
    ResetAccumulated,
}

fn split() -> impl Strategy<Value = (i64, i64)> {
    (-1_i64..=1, -1000_i64..1000)
}

fn op() -> impl Strategy<Value = Op> {
    let at = any::<prop::sample::Index>().prop_map(|at| at.index(1 << 20));
    prop_oneof![
        6 => (any::<bool>(), 1_u64..1000, split())
            .prop_map(|(is_small, size, split)| Op::HandOut { is_small, size, split }),
        4 => (at.clone(), any::<bool>(), split()).prop_map(|(at, waits, split)| Op::Free { at, waits, split }),
        2 => at.clone().prop_map(Op::EndWait),
        1 => (at, split(), 0_i64..5).prop_map(|(at, split, times)| Op::Repeat { at, split, times }),
        1 => Just(Op::ResetPeak),
        1 => Just(Op::ResetAccumulated),
    ]
}

fn take<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    if from.is_empty() { None } else { Some(from.swap_remove(at % from.len())) }
}

proptest! {
    #[test]
    fn what_is_worked_out_is_what_counting_gives(ops in vec(op(), 1..200)) {
        let (mut usage, mut counted) = (Usage::default(), DeviceStats::default());
        // Whether it is small, and its size.
        let (mut held, mut waiting) = (Vec::<(bool, u64)>::new(), Vec::new());
        for op in ops {
            match op {
                Op::HandOut { is_small, size, split } => {
                    usage.hand_out(is_small, size, size / 2);
                    usage.change_split(is_small, split);
                    counted.allocation.increase(is_small, 1);
                    counted.allocated_bytes.increase(is_small, size as i64);
                    counted.active.increase(is_small, 1);
                    counted.active_bytes.increase(is_small, size as i64);
                    counted.requested_bytes.increase(is_small, (size / 2) as i64);
                    counted.inactive_split.change(is_small, split.0);
                    counted.inactive_split_bytes.change(is_small, split.1);
                    held.push((is_small, size));
                }
                Op::Free { at, waits, split } => {
                    let Some((is_small, size)) = take(&mut held, at) else { continue };
                    counted.allocation.decrease(is_small, 1);
                    counted.allocated_bytes.decrease(is_small, size as i64);
                    if waits {
                        usage.wait(is_small, size);
                        waiting.push((is_small, size));
                        continue;
                    }
                    usage.free(is_small, size, size / 2);
                    usage.change_split(is_small, split);
                    counted.inactive_split.change(is_small, split.0);
                    counted.inactive_split_bytes.change(is_small, split.1);
                    end(&mut counted, is_small, size);
                }
                Op::EndWait(at) => {
                    let Some((is_small, size)) = take(&mut waiting, at) else { continue };
                    usage.end_wait(is_small, size, size / 2);
                    end(&mut counted, is_small, size);
                }
                Op::Repeat { at, split, times } => {
                    let Some(&(is_small, size)) = held.get(at % held.len().max(1)) else { continue };
                    usage.repeat(is_small, (size, size / 2), split, times);
                    counted.allocation.repeat(is_small, 1, times);
                    counted.allocated_bytes.repeat(is_small, size as i64, times);
                    counted.active.repeat(is_small, 1, times);
                    counted.active_bytes.repeat(is_small, size as i64, times);
                    counted.requested_bytes.repeat(is_small, (size / 2) as i64, times);
                    counted.inactive_split.repeat(is_small, split.0, times);
                    counted.inactive_split_bytes.repeat(is_small, split.1, times);
                }
                Op::ResetPeak => {
                    usage.reset_peak();
                    counted.reset_peak();
                }
                Op::ResetAccumulated => {
                    usage.reset_accumulated();
                    counted.reset_accumulated();
                }
            }
            let mut filled = DeviceStats::default();
            usage.fill(&mut filled);
            prop_assert_eq!(&filled, &counted);
            prop_assert_eq!(usage.allocated_bytes(), counted.allocated_bytes.all.current as u64);
            prop_assert_eq!(usage.is_idle(), counted.active.all.current == 0);
        }
    }
}

fn end(counted: &mut DeviceStats, is_small: bool, size: u64) {
    counted.active.decrease(is_small, 1);
    counted.active_bytes.decrease(is_small, size as i64);
    counted.requested_bytes.decrease(is_small, (size / 2) as i64);
}
