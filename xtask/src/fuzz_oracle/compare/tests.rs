use super::{Verdict, compare};
use crate::fuzz_oracle::run::Output;

fn output(lines: &[&str]) -> Output {
    Output { lines: lines.iter().map(|line| (*line).to_owned()).collect(), failed: false }
}

fn first_difference(oracle: &[&str], ours: &[&str]) -> Option<usize> {
    match compare(&output(oracle), &output(ours)) {
        Verdict::Agree => None,
        Verdict::Differ(line) => Some(line),
        Verdict::AgreeUpTo(line) => panic!("PyTorch is in order after line {line}"),
    }
}

#[test]
fn a_missing_line_is_a_difference() {
    let whole = ["free 1", "complete all"];
    assert_eq!(first_difference(&whole, &whole), None);
    assert_eq!(first_difference(&whole, &["free 1"]), Some(1));
    assert_eq!(first_difference(&[], &whole), Some(0));
}

#[test]
fn the_sums_of_inactive_split_are_open_once_a_stream_is_recorded() {
    let one = "stat inactive_split.all current 1 peak 2 allocated 3 freed 2";
    let other = "stat inactive_split.all current 1 peak 1 allocated 2 freed 1";
    let wrong = "stat inactive_split.all current 2 peak 2 allocated 3 freed 1";
    assert_eq!(first_difference(&[one], &[other]), Some(0));
    let record = "record 1 2";
    assert_eq!(first_difference(&[record, one], &[record, other]), None);
    assert_eq!(first_difference(&[record, one], &[record, wrong]), Some(1));
    let bytes = ["stat active.all current 1 peak 2", "stat active.all current 1 peak 1"];
    assert_eq!(first_difference(&[record, bytes[0]], &[record, bytes[1]]), Some(1));
}

#[test]
fn completed_frees_in_a_row_have_no_order() {
    let [a, b] = ["trace free_completed 1 seg0+0", "trace free_completed 2 seg1+0"];
    let between = "trace segment_free 2 seg1+0";
    assert_eq!(first_difference(&[a, b, between], &[b, a, between]), None);
    assert_eq!(first_difference(&[a, between, b], &[b, between, a]), Some(0));
    assert_eq!(first_difference(&[a, a], &[a, b]), Some(1));
}

#[test]
fn refusals_are_compared_and_defects_end_the_comparison() {
    let refused = "error m 1.5: invalid fraction:1.5. Please set within [0, 1].";
    assert_eq!(first_difference(&[refused, "free 1"], &[refused, "free 1"]), None);
    assert_eq!(first_difference(&[refused], &["error m 1.5: no"]), Some(0));
    let assertion = "error pool_count 9: it != graph_pools.end() INTERNAL ASSERT FAILED at x";
    assert_eq!(first_difference(&[assertion, "free 1"], &["error pool_count 9: no pool", "free 1"]), None);
    assert_eq!(first_difference(&[assertion], &["pool_count 9 0"]), Some(0));

    let defect =
        ["free 1", "driver segment_alloc_failed 512 -", "error a 1 2 0: CUDA error: operation not permitted"];
    let in_order = output(&["free 1", "alloc 1 2 block 512 at seg0+0", "free 1"]);
    assert_eq!(compare(&output(&defect), &in_order), Verdict::AgreeUpTo(1));
    assert_eq!(compare(&output(&defect), &output(&["free 2"])), Verdict::Differ(0));
    let half = ["trace free_requested 1 seg0+0", "error restore A 5: could not find 0x1"];
    assert_eq!(compare(&output(&half), &output(&["error restore A 5: no"])), Verdict::AgreeUpTo(0));
    assert_eq!(compare(&output(&half), &output(&["restore A 5"])), Verdict::Differ(0));
    let crash = Output { lines: vec!["free 1".to_owned(), "failed: a signal".to_owned()], failed: true };
    assert_eq!(compare(&crash, &in_order), Verdict::AgreeUpTo(1));
}

#[test]
fn a_restore_has_no_order() {
    let one = [
        "trace alloc 1 seg0+0",
        "trace alloc 1 seg0+512",
        "restore A 5",
        "stat a.all current 1 peak 2 allocated 2",
    ];
    let other = [
        "trace alloc 1 seg0+512",
        "trace alloc 1 seg0+0",
        "restore A 5",
        "stat a.all current 1 peak 3 allocated 2",
    ];
    assert_eq!(first_difference(&one, &other), None);
    assert_eq!(first_difference(&one[1..], &other[1..]), Some(0));
    assert_eq!(first_difference(&one[3..], &other[3..]), Some(0));
}

#[test]
fn what_pytorch_takes_from_a_capture_ends_the_comparison() {
    let theirs = ["capture_begin 1 1.0", "driver unmap 2097152 seg0+0", "alloc 3 1 block 512 at seg1+0"];
    let ours = ["capture_begin 1 1.0", "oom 3 1 CUDA out of memory."];
    assert_eq!(compare(&output(&theirs), &output(&ours)), Verdict::AgreeUpTo(1));
    assert_eq!(compare(&output(&theirs[1..]), &output(&ours[1..])), Verdict::Differ(0));
    assert_eq!(compare(&output(&ours), &output(&theirs)), Verdict::Differ(1));
}

#[test]
fn a_use_that_pytorch_has_forgotten_ends_the_comparison() {
    let before = ["capture_begin 1 1.0", "record 7 2", "capture_end 1 nodes 0", "free 7"];
    let [completed, alloc] = ["trace free_completed 512 seg0+0", "alloc 8 1 block 512 at seg0+512"];
    let with = |rest: [&'static str; 2]| output(&[&before[..], &rest[..]].concat());
    assert_eq!(compare(&with([completed, alloc]), &with([alloc, completed])), Verdict::AgreeUpTo(4));
    assert_eq!(compare(&with([alloc, completed]), &with([completed, alloc])), Verdict::Differ(4));
    assert_eq!(first_difference(&[completed, alloc], &[alloc, completed]), Some(0));
}

#[test]
fn a_pool_that_pytorch_has_miscounted_ends_the_comparison() {
    let before = ["trace segment_map 2 seg0+0 pool 5", "trace segment_map 2 seg0+2 pool 5"];
    let [early, late] = ["trace segment_free 2 seg7+0 pool 7", "trace segment_free 2 seg4+0 pool 4"];
    let with = |unmapped: &[&'static str], rest: [&'static str; 2]| {
        output(&[&before[..], unmapped, &rest[..]].concat())
    };
    let kept = ["trace segment_unmap 4 seg0+0 pool 5"];
    assert_eq!(compare(&with(&kept, [early, late]), &with(&kept, [late, early])), Verdict::AgreeUpTo(3));
    let one_by_one = ["trace segment_unmap 2 seg0+0 pool 5", "trace segment_unmap 2 seg0+2 pool 5"];
    let [theirs, ours] = [with(&one_by_one, [early, late]), with(&one_by_one, [late, early])];
    assert_eq!(compare(&theirs, &ours), Verdict::Differ(4));
    let oom = ["oom 3 1 with 2 MiB in private pools", "oom 3 1 with nothing"];
    assert_eq!(compare(&with(&kept, [oom[0], late]), &with(&kept, [oom[1], late])), Verdict::AgreeUpTo(3));
}

#[test]
fn a_stream_that_pytorch_leaves_unjoined_ends_the_comparison() {
    let [begin, used, call] = ["capture_begin 1 1.0", "record 7 2", "driver graph_free 2097152 seg2+0"];
    let [unjoined, ended] = ["error capture_end 1: cudaErrorStreamCaptureUnjoined", "capture_end 1 nodes 2"];
    let with = |free, end| output(&[begin, used, call, free, end]);
    assert_eq!(compare(&with("free 7", unjoined), &with("free 7", ended)), Verdict::AgreeUpTo(4));
    assert_eq!(compare(&with("free 8", unjoined), &with("free 8", ended)), Verdict::Differ(4));
    assert_eq!(compare(&with("free 7", ended), &with("free 7", unjoined)), Verdict::Differ(4));
    let before = |end| output(&[used, call, "free 7", begin, end]);
    assert_eq!(compare(&before(unjoined), &before(ended)), Verdict::Differ(4));
}

#[test]
fn how_much_could_be_had_is_tried_in_a_capture_by_pytorch_alone() {
    let [begin, trial, answer] = ["capture_begin 1 1.0", "driver async_reserve 8 seg5+0", "cache_info 8"];
    let compared = |theirs: &[&str], ours: &[&str]| compare(&output(theirs), &output(ours));
    let refused = "driver async_reserve_failed 16 -";
    assert_eq!(compared(&[begin, trial, answer], &[begin, answer]), Verdict::AgreeUpTo(1));
    assert_eq!(compared(&[begin, refused, answer], &[begin, answer]), Verdict::AgreeUpTo(1));
    assert_eq!(compared(&[trial, answer], &[answer]), Verdict::Differ(0));
    assert_eq!(compared(&[refused, answer], &[answer]), Verdict::Differ(0));
    assert_eq!(compared(&[begin, answer], &[begin, trial, answer]), Verdict::Differ(1));
}
