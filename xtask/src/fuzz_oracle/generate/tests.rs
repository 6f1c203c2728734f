use super::{Fixed, trace};

#[test]
fn a_seed_gives_one_trace() {
    for seed in 0..50 {
        assert_eq!(trace(seed, &Fixed::default()), trace(seed, &Fixed::default()));
    }
    assert_ne!(trace(1, &Fixed::default()), trace(2, &Fixed::default()));
}

#[test]
fn what_is_fixed_holds() {
    let fixed =
        Fixed { ops: Some(45), conf: Some("max_split_size_mb:32".to_owned()), device_memory: Some(1 << 30) };
    for seed in 0..50 {
        let trace = trace(seed, &fixed);
        assert!(trace.ops.len() >= 45 && trace.ops.len() < 50);
        assert_eq!((trace.conf.as_str(), trace.device_memory), ("max_split_size_mb:32", 1 << 30));
    }
}
