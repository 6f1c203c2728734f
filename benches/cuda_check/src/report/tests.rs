//! What is made of a suite's output.

use std::time::Duration;

use super::Outcome;

const COUNTED: &str =
    "test real::a ... ok\ntest result: ok. 33 passed; 0 failed; 2 ignored; 0 measured; 50 filtered out\n";

fn said(printed: &str, errors: &str) -> (bool, String) {
    let outcome = Outcome::new("driver suite", Duration::ZERO, printed, errors, None);
    (outcome.good, outcome.said)
}

#[test]
fn tests_that_were_skipped_are_counted() {
    let ran = (true, "ok. 33 passed; 0 failed; 0 of these skipped".to_owned());
    assert_eq!(said(COUNTED, ""), ran);
    let errors = "skipped: 1 of 2 CUDA devices\nskipped: the driver is no stand-in\n";
    assert_eq!(said(COUNTED, errors), (true, "ok. 33 passed; 0 failed; 2 of these skipped".to_owned()));
}

#[test]
fn a_suite_that_found_no_driver_is_not_well() {
    let errors = "skipped: no CUDA driver (none)\n";
    assert_eq!(said(COUNTED, errors), (false, "found no CUDA driver".to_owned()));
    let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 85 filtered out\n";
    assert_eq!(said(none, ""), (false, "no test ran".to_owned()));
}
