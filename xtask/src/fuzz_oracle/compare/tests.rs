use super::first_difference;
use crate::fuzz_oracle::run::Output;

fn output(lines: &[&str]) -> Output {
    Output { lines: lines.iter().map(|line| (*line).to_owned()).collect(), failed: false }
}

#[test]
fn a_missing_line_is_a_difference() {
    let whole = output(&["free 1", "complete all"]);
    assert_eq!(first_difference(&whole, &whole), None);
    assert_eq!(first_difference(&whole, &output(&["free 1"])), Some(1));
    assert_eq!(first_difference(&output(&[]), &whole), Some(0));
}

#[test]
fn the_sums_of_inactive_split_are_open_once_a_stream_is_recorded() {
    let one = "stat inactive_split.all current 1 peak 2 allocated 3 freed 2";
    let other = "stat inactive_split.all current 1 peak 1 allocated 2 freed 1";
    let wrong = "stat inactive_split.all current 2 peak 2 allocated 3 freed 1";
    assert_eq!(first_difference(&output(&[one]), &output(&[other])), Some(0));
    let record = "record 1 2";
    assert_eq!(first_difference(&output(&[record, one]), &output(&[record, other])), None);
    assert_eq!(first_difference(&output(&[record, one]), &output(&[record, wrong])), Some(1));
    let bytes = ["stat active.all current 1 peak 2", "stat active.all current 1 peak 1"];
    assert_eq!(first_difference(&output(&[record, bytes[0]]), &output(&[record, bytes[1]])), Some(1));
}

#[test]
fn completed_frees_in_a_row_have_no_order() {
    let [a, b] = ["trace free_completed 1 seg0+0", "trace free_completed 2 seg1+0"];
    let between = "trace segment_free 2 seg1+0";
    assert_eq!(first_difference(&output(&[a, b, between]), &output(&[b, a, between])), None);
    assert_eq!(first_difference(&output(&[a, between, b]), &output(&[b, between, a])), Some(0));
    assert_eq!(first_difference(&output(&[a, a]), &output(&[a, b])), Some(1));
}
