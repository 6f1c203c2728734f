use super::shrink;
use crate::fuzz_oracle::family::Family;
use crate::fuzz_oracle::generate::{Fixed, trace};
use crate::fuzz_oracle::trace::{Command, Op, Trace};

fn bytes(op: &Op) -> u64 {
    match op.command {
        Command::Allocate { bytes, .. } => bytes,
        Command::Text(_) => 0,
    }
}

#[test]
fn leaves_only_what_the_difference_needs() {
    let fixed =
        Fixed { ops: Some(300), conf: Some("a:1,roundup:[1:2,>:4],b:2".to_owned()), ..Fixed::default() };
    let large = |op: &&Op| bytes(op) > 2000;
    let found = (0..)
        .map(|seed| trace(Family::Basic, seed, &fixed))
        .find(|trace| trace.ops.iter().filter(large).count() > 20);
    let small = shrink(found.unwrap(), |trace| {
        let larges = trace.ops.iter().filter(large).count();
        Ok(larges >= 2 && trace.conf.contains("roundup"))
    });
    let small = small.unwrap();
    assert_eq!(small.conf, "roundup:[1:2,>:4]");
    assert_eq!(small.ops.len(), 2);
    assert!(small.ops.iter().all(|op| (2001..4004).contains(&bytes(op)) && op.to_string().ends_with(" 0")));
}

#[test]
fn a_command_goes_with_what_it_needs() {
    for (family, end, begin) in [
        (Family::Basic, "f ", "a "),
        (Family::Pools, "pool_end ", "pool_begin "),
        (Family::Mempool, "unuse ", "use "),
        (Family::Capture, "capture_end ", "capture_begin "),
        (Family::Checkpoint, "restore ", "checkpoint "),
    ] {
        let has = |op: &Op, head: &str| op.to_string().contains(head);
        // What it ends or frees: some commands are of things that are not there.
        let of = |op: &Op, head: &str| Some(op.to_string().split_once(head)?.1.split(' ').next()?.to_owned());
        let ended = |trace: &Trace| {
            trace.ops.iter().enumerate().find_map(|(place, op)| {
                let begun = of(op, end).is_some_and(|ended| {
                    trace.ops[..place].iter().any(|op| of(op, begin).as_ref() == Some(&ended))
                });
                begun.then(|| op.to_string())
            })
        };
        let found = (0..).map(|seed| trace(family, seed, &Fixed::default()));
        let (whole, wanted) =
            found.into_iter().find_map(|trace| ended(&trace).map(|op| (trace, op))).unwrap();
        let small = shrink(whole, |trace| Ok(trace.ops.iter().any(|op| op.to_string() == wanted))).unwrap();
        let (last, before) = small.ops.split_last().unwrap();
        assert!(has(last, end) && before.iter().any(|op| has(op, begin)), "{small}");
        assert!(before.len() < 4, "{small}");
    }
}
