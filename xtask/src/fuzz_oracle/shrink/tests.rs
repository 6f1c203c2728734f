use super::shrink;
use crate::fuzz_oracle::generate::{Fixed, trace};
use crate::fuzz_oracle::trace::Op;

#[test]
fn leaves_only_what_the_difference_needs() {
    let fixed =
        Fixed { ops: Some(300), conf: Some("a:1,roundup:[1:2,>:4],b:2".to_owned()), ..Fixed::default() };
    let large = |op: &&Op| matches!(op, Op::Allocate { bytes, .. } if *bytes > 2000);
    let found =
        (0..).map(|seed| trace(seed, &fixed)).find(|trace| trace.ops.iter().filter(large).count() > 20);
    let small = shrink(found.unwrap(), |trace| {
        let larges = trace.ops.iter().filter(large).count();
        Ok(larges >= 2 && trace.conf.contains("roundup"))
    });
    let small = small.unwrap();
    assert_eq!(small.conf, "roundup:[1:2,>:4]");
    assert_eq!(small.ops.len(), 2);
    assert!(small.ops.iter().all(|op| matches!(op, Op::Allocate { bytes: 2001..4004, stream: 0, .. })));
}

#[test]
fn never_makes_a_trace_that_frees_what_it_did_not_allocate() {
    let whole = trace(7, &Fixed::default());
    let small = shrink(whole, |trace| {
        for (place, op) in trace.ops.iter().enumerate() {
            if let Op::Free { id } | Op::RecordStream { id, .. } = op {
                let allocates = |op: &Op| matches!(op, Op::Allocate { id: allocated, .. } if allocated == id);
                assert!(trace.ops[..place].iter().any(allocates));
            }
        }
        Ok(trace.ops.iter().any(|op| matches!(op, Op::Free { .. })))
    });
    assert_eq!(small.unwrap().ops.len(), 2);
}
