use super::Totals;

fn totals(lines: &[&str]) -> Totals {
    let mut totals = Totals::default();
    lines.iter().for_each(|line| totals.read_line(line));
    totals
}

#[test]
fn adds_up_the_results_of_every_binary() {
    let totals = totals(&[
        "running 2 tests",
        "test data_ptr::drop_runs_the_deleter_once ... ok",
        "test result: ok. 120 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
        "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.00s",
    ]);
    assert_eq!(totals.to_string(), "123 passed, 2 failed");
    assert!(!totals.good());
}

#[test]
fn a_test_that_says_skipped_is_not_among_the_passed() {
    let totals = totals(&[
        "skipped: no CUDA driver",
        "test real ... skipped: no CUDA driver",
        "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s",
    ]);
    assert_eq!(totals.to_string(), "3 passed, 0 failed, 3 skipped");
    assert!(totals.good());
}

#[test]
fn nothing_ran_is_not_good() {
    assert!(!totals(&["test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"]).good());
}

#[test]
fn a_run_that_did_not_build_is_not_good() {
    let mut totals = totals(&["test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"]);
    totals.add_run(false);
    assert_eq!(totals.to_string(), "5 passed, 1 failed");
    assert!(!totals.good());
}
