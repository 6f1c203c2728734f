use super::{Fixed, trace};
use crate::fuzz_oracle::family::Family;
use clap::ValueEnum;

#[test]
fn a_seed_gives_one_trace() {
    for family in Family::value_variants() {
        for seed in 0..20 {
            assert_eq!(trace(*family, seed, &Fixed::default()), trace(*family, seed, &Fixed::default()));
        }
        assert_ne!(trace(*family, 1, &Fixed::default()), trace(*family, 2, &Fixed::default()));
    }
}

#[test]
fn what_is_fixed_holds() {
    let fixed =
        Fixed { ops: Some(45), conf: Some("max_split_size_mb:32".to_owned()), device_memory: Some(1 << 30) };
    for seed in 0..50 {
        let trace = trace(Family::Mixed, seed, &fixed);
        assert!(trace.ops.len() >= 45 && trace.ops.len() < 55);
        assert_eq!((trace.conf.as_str(), trace.device_memory), ("max_split_size_mb:32", 1 << 30));
    }
}

#[test]
fn what_a_command_needs_stands_before_it() {
    for family in Family::value_variants() {
        for seed in 0..20 {
            let trace = trace(*family, seed, &Fixed::default());
            assert_eq!(trace.with_ops(trace.ops.clone()), trace);
        }
    }
}
